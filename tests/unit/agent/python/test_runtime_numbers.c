// SPDX-License-Identifier: Apache-2.0
// Numbers of CPython builds: reused when nobody uses them, and divided between payers when all are in use.
#include "agent/python/runtime_numbers.h"

#include <errno.h>

#include "tests/test.h"

enum { ALL = PYTHON_RUNTIMES_MAX - 1, HOSTILE = 7, HONEST = 8 };

static struct runtime_numbers numbers;
static uint32_t number;
static bool is_evicted;

static int take_for(uint64_t payer, bool is_held)
{
	int rc = runtime_numbers_take(&numbers, payer, &number, &is_evicted);

	if (!rc && is_held)
		runtime_numbers_hold(&numbers, number);
	return rc;
}

/* All numbers are of @payer's builds. */
static void fill(uint64_t payer, bool is_held)
{
	numbers = (struct runtime_numbers){ 0 };
	for (uint32_t i = 0; i < ALL; i++) {
		assert_int_equal(0, take_for(payer, is_held));
		EXPECT_EQ(i + 1, number, "in turn");
		EXPECT_EQ(false, is_evicted, "of nobody");
	}
}

TEST(reuses_oldest_unused)
{
	fill(HOSTILE, false);
	runtime_numbers_use(&numbers, 1);
	runtime_numbers_hold(&numbers, 2);
	EXPECT_EQ(0, take_for(HOSTILE, true), "one more");
	EXPECT_EQ(3, number, "the least recently used without a user");
	EXPECT_EQ(true, is_evicted, "it was another's");
	runtime_numbers_release(&numbers, 2);
	EXPECT_EQ(0, take_for(HOSTILE, true), "one more");
	EXPECT_EQ(2, number, "released");
}

TEST(an_honest_build_gets_in)
{
	fill(HOSTILE, true);
	runtime_numbers_use(&numbers, 1);
	EXPECT_EQ(0, take_for(HONEST, true), "another container's");
	EXPECT_EQ(2, number, "for the least recently used of the other's");
	EXPECT_EQ(true, is_evicted, "in use");
	// The evicted process comes again.
	EXPECT_EQ(-ENOSPC, take_for(HOSTILE, true), "the greedy one's");
	EXPECT_EQ(HONEST, numbers.numbers[2].payer, "stays");
}

TEST(containers_end_with_equal_parts)
{
	uint32_t count = 0;

	fill(HOSTILE, true);
	while (take_for(HONEST, true) == 0)
		count++;
	EXPECT_EQ(ALL / 2, count, "of the second");
	EXPECT_EQ(-ENOSPC, take_for(HOSTILE, true), "the first's");
}

TEST(keeps_unowned_in_use)
{
	fill(0, true);
	EXPECT_EQ(-ENOSPC, take_for(HONEST, true), "with others'");
}

RUN_TESTS(cmocka_unit_test(reuses_oldest_unused), cmocka_unit_test(an_honest_build_gets_in),
	  cmocka_unit_test(containers_end_with_equal_parts), cmocka_unit_test(keeps_unowned_in_use))
