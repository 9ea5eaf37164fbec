// SPDX-License-Identifier: Apache-2.0
#include "base/time_span.h"

#include "tests/test.h"

static const struct {
	uint64_t from_ns, to_ns, ns;
	const char *what;
} spans[] = {
	{ 0, 0, 0, "no time at all" },
	{ 5, 12, 7, "a while" },
	{ 12, 12, 0, "at once" },
	{ 13, 12, 0, "read by another CPU, some nanoseconds ahead" },
	{ UINT64_MAX, 0, 0, "the other way round" },
	{ 0, UINT64_MAX, UINT64_MAX, "since ever" },
};

TEST(reversed_span_is_zero)
{
	for EACH (row, spans)
		EXPECT_EQ(row->ns, ns_between(row->from_ns, row->to_ns), row->what);
}

static const struct {
	uint64_t time_ns, span_ns, ns;
	const char *what;
} moments[] = {
	{ 100, 40, 60, "an old clock" },
	{ 40, 40, 0, "when it began" },
	{ 7, 3600, 0, "an hour before now, on a machine that booted just now" },
	{ 0, UINT64_MAX, 0, "long before" },
	{ UINT64_MAX, 1, UINT64_MAX - 1, "a very old clock" },
};

TEST(nothing_lies_before_the_clock_began)
{
	for EACH (row, moments)
		EXPECT_EQ(row->ns, ns_before(row->time_ns, row->span_ns), row->what);
}

RUN_TESTS(cmocka_unit_test(reversed_span_is_zero),
	  cmocka_unit_test(nothing_lies_before_the_clock_began))
