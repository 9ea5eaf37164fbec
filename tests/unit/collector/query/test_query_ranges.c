// SPDX-License-Identifier: Apache-2.0
// Sets of time ranges against a map of moments.
#include <stdlib.h>

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

RUN_TESTS(cmocka_unit_test(covers_the_same_moments_in_order),
	  cmocka_unit_test(widening_stops_at_the_end_of_time))
