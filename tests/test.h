// SPDX-License-Identifier: Apache-2.0
// A little on top of cmocka: tests are claims, tables have a word for each row.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// tests/run-unit names a single test so.
static void __attribute__((constructor)) choose_test(void)
{
	cmocka_set_test_filter(getenv("UNIT_TEST"));
}

/** TEST(claim_in_words) { ... }; list it in RUN_TESTS(). */
#define TEST(claim) static void claim(void **state __attribute__((unused)))

#define RUN_TESTS(...)                                             \
	int main(void)                                             \
	{                                                          \
		const struct CMUnitTest tests[] = { __VA_ARGS__ }; \
		return cmocka_run_group_tests(tests, NULL, NULL);  \
	}

/** The same; @begin(argc, argv) comes first in main(), and may exit. */
#define RUN_TESTS_AFTER(begin, ...)                                \
	int main(int argc, char **argv)                            \
	{                                                          \
		const struct CMUnitTest tests[] = { __VA_ARGS__ }; \
		begin(argc, argv);                                 \
		return cmocka_run_group_tests(tests, NULL, NULL);  \
	}

/** for EACH(row, table) { ... row->field ... } */
#define EACH(row, table)                        \
	(__typeof__(&(table)[0]) row = (table); \
	 row < (table) + sizeof(table) / sizeof((table)[0]); row++)

/** Compare integers; @what is the row's word, shown when they differ. */
#define EXPECT_EQ(expected, actual, what)                                                   \
	do {                                                                                \
		long long expected_ = (long long)(expected), actual_ = (long long)(actual); \
		if (expected_ != actual_)                                                   \
			fail_msg("%s: %s is %lld, expected %lld", (what), #actual, actual_, \
				 expected_);                                                \
	} while (0)

#define EXPECT_STR(expected, actual, what)                                             \
	do {                                                                           \
		const char *expected_ = (expected), *actual_ = (actual);               \
		if (!actual_ || strcmp(expected_, actual_) != 0)                       \
			fail_msg("%s: %s is \"%s\", expected \"%s\"", (what), #actual, \
				 actual_ ? actual_ : "(null)", expected_);             \
	} while (0)

/** Skip with a reason, said aloud. */
#define SKIP(reason)                                           \
	do {                                                   \
		printf("# SKIP %s: %s\n", __func__, (reason)); \
		skip();                                        \
	} while (0)

/** @ns of CPU time, on a machine that is as many times slower as UNIT_SLOWER says: an emulated one. */
static inline uint64_t slower_ns(uint64_t ns)
{
	const char *times = getenv("UNIT_SLOWER");

	return times ? ns * strtoul(times, NULL, 10) : ns;
}
