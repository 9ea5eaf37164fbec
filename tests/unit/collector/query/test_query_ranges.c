// SPDX-License-Identifier: Apache-2.0
// Sets of time ranges against a map of moments.
#include <stdlib.h>

#include <errno.h>

#include "tests/test.h"

#include "collector/query/query_ranges.h"

enum { ROUNDS = 2000, MOMENTS = 300, UNIT = 7 };

TEST(covers_the_same_moments_in_order)
{
	srandom(20);
	for (int round = 0; round < ROUNDS; round++) {
		struct query_ranges ranges = { .count = 1 + (uint32_t)random() % QUERY_RANGES_MAX };
		uint8_t asked[MOMENTS] = { 0 }, covered[MOMENTS] = { 0 };
		uint64_t unit = round % 2 ? UNIT : 1;

		for (uint32_t i = 0; i < ranges.count; i++) {
			uint64_t from = (uint64_t)random() % (MOMENTS - 40);
			uint64_t to = from + 1 + (uint64_t)random() % (round % 5 ? 4 : 30);

			ranges.at[i] = (struct time_range){ from, to };
			for (uint64_t at = from / unit * unit; at < (to + unit - 1) / unit * unit;
			     at++)
				asked[at] = 1;
		}
		if (unit == 1)
			query_ranges_tidy(&ranges);
		else
			query_ranges_widen(&ranges, unit);
		for (uint32_t i = 0; i < ranges.count; i++) {
			assert_true(ranges.at[i].from_ns < ranges.at[i].to_ns);
			assert_true(!i || ranges.at[i - 1].to_ns < ranges.at[i].from_ns);
			memset(covered + ranges.at[i].from_ns, 1,
			       ranges.at[i].to_ns - ranges.at[i].from_ns);
		}
		assert_memory_equal(asked, covered, MOMENTS);
		struct time_range hull = query_ranges_hull(&ranges);
		assert_int_equal(ranges.at[0].from_ns, hull.from_ns);
		assert_int_equal(ranges.at[ranges.count - 1].to_ns, hull.to_ns);
	}
}

TEST(widening_stops_at_the_end_of_time)
{
	struct query_ranges ranges = { { { UINT64_MAX - 3, UINT64_MAX } }, 1 };

	query_ranges_widen(&ranges, 1000);
	assert_int_equal(UINT64_MAX, ranges.at[0].to_ns);
	assert_int_equal(UINT64_MAX / 1000 * 1000, ranges.at[0].from_ns);
}

static const struct {
	const char *what;
	struct time_range window;
	struct query_ranges holes;
	struct time_range rest[3];
	uint32_t rest_count;
} rests[] = {
	{ "in the middle", { 10, 20 }, { { { 12, 14 } }, 1 }, { { 10, 12 }, { 14, 20 } }, 2 },
	{ "at the begin", { 10, 20 }, { { { 10, 14 } }, 1 }, { { 14, 20 } }, 1 },
	{ "beyond the end", { 10, 20 }, { { { 15, 30 } }, 1 }, { { 10, 15 } }, 1 },
	{ "all of it", { 10, 20 }, { { { 5, 30 } }, 1 }, { { 0, 0 } }, 0 },
	{ "outside", { 10, 20 }, { { { 1, 5 }, { 30, 40 } }, 2 }, { { 10, 20 } }, 1 },
	{ "two",
	  { 10, 20 },
	  { { { 11, 12 }, { 13, 14 } }, 2 },
	  { { 10, 11 }, { 12, 13 }, { 14, 20 } },
	  3 },
	{ "two that meet",
	  { 10, 20 },
	  { { { 11, 12 }, { 12, 14 } }, 2 },
	  { { 10, 11 }, { 14, 20 } },
	  2 },
};

TEST(the_rest_is_the_window_without_its_holes)
{
	for EACH (row, rests) {
		struct query_ranges rest;

		assert_int_equal(0, query_ranges_without(row->window, &row->holes, &rest));
		EXPECT_EQ(row->rest_count, rest.count, row->what);
		for (uint32_t i = 0; i < rest.count; i++) {
			EXPECT_EQ(row->rest[i].from_ns, rest.at[i].from_ns, row->what);
			EXPECT_EQ(row->rest[i].to_ns, rest.at[i].to_ns, row->what);
		}
	}
}

TEST(refuses_a_rest_of_too_many_ranges)
{
	struct query_ranges holes = { .count = QUERY_RANGES_MAX }, rest;

	for (uint32_t i = 0; i < QUERY_RANGES_MAX; i++)
		holes.at[i] = (struct time_range){ 10 * i + 1, 10 * i + 2 };
	assert_int_equal(-E2BIG,
			 query_ranges_without((struct time_range){ 0, 9999 }, &holes, &rest));
	assert_int_equal(0, query_ranges_without((struct time_range){ 1, 9999 }, &holes, &rest));
	assert_int_equal(QUERY_RANGES_MAX, rest.count);
}

RUN_TESTS(cmocka_unit_test(covers_the_same_moments_in_order),
	  cmocka_unit_test(widening_stops_at_the_end_of_time),
	  cmocka_unit_test(the_rest_is_the_window_without_its_holes),
	  cmocka_unit_test(refuses_a_rest_of_too_many_ranges))
