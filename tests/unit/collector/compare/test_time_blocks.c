// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "tests/test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/compare/time_blocks.h"

#define S NS_PER_SECOND

static const struct time_range ALWAYS = { 0, UINT64_MAX };

static const struct {
	const char *what;
	struct time_range ranges[3];
	uint32_t count;
	uint32_t blocks_min, blocks_max;
} rows[] = {
	{ "a quarter of an hour", { { 1000 * S, 1900 * S } }, 1, 30, 33 },
	{ "a day, at an odd time", { { 1001 * S + 7, 87401 * S + 7 } }, 1, 30, 33 },
	{ "a month", { { 0, 31 * 86400 * S } }, 1, 30, 33 },
	{ "a second", { { 1000 * S, 1001 * S } }, 1, 25, 33 },
	{ "one slot", { { 1000 * S, 1000 * S + 20 * NS_PER_MS } }, 1, 1, 1 },
	{ "a part of a slot", { { 1000 * S + 5, 1000 * S + 9 } }, 1, 1, 1 },
	{ "what surrounds a region",
	  { { 1000 * S, 1300 * S }, { 1310 * S, 1900 * S } },
	  2,
	  30,
	  34 },
	{ "neighbours", { { 10 * S, 11 * S }, { 11 * S, 12 * S }, { 12 * S, 13 * S } }, 3, 25, 38 },
};

TEST(blocks_cover_the_ranges_once)
{
	for EACH (row, rows) {
		struct time_blocks blocks;
		uint64_t at = row->ranges[0].from_ns;
		uint32_t range = 0;

		EXPECT_EQ(0, time_blocks_of(row->ranges, row->count, ALWAYS, &blocks), row->what);
		for (uint32_t i = 0; i < blocks.count; i++) {
			EXPECT_EQ(at, blocks.blocks[i].from_ns, row->what);
			assert_true(blocks.blocks[i].to_ns > at);
			at = blocks.blocks[i].to_ns;
			if (at == row->ranges[range].to_ns && range + 1 < row->count)
				at = row->ranges[++range].from_ns;
		}
		EXPECT_EQ(row->ranges[row->count - 1].to_ns, at, row->what);
		if (blocks.count < row->blocks_min || blocks.count > row->blocks_max)
			fail_msg("%s: %u blocks", row->what, blocks.count);
	}
}

TEST(blocks_of_long_ranges_begin_with_minutes)
{
	const struct time_range day = { 1001 * S, 87401 * S };
	struct time_blocks blocks;

	assert_int_equal(0, time_blocks_of(&day, 1, ALWAYS, &blocks));
	for (uint32_t i = 1; i < blocks.count; i++)
		EXPECT_EQ(0, blocks.blocks[i].from_ns % (60 * S), "a block's begin");
}

TEST(only_the_hull_is_cut)
{
	const struct time_range hour = { 0, 3600 * S }, hull = { 1000 * S, 1008 * S };
	struct time_blocks blocks;

	assert_int_equal(0, time_blocks_of(&hour, 1, hull, &blocks));
	assert_int_equal(hull.from_ns, blocks.blocks[0].to_ns);
	assert_int_equal(hull.to_ns, blocks.blocks[blocks.count - 1].from_ns);
	assert_in_range(blocks.count, 30, 36);
	assert_int_equal(0, time_blocks_of(&hour, 1, (struct time_range){ 0 }, &blocks));
	assert_int_equal(1, blocks.count); // nothing is there
}

TEST(as_many_ranges_as_allowed_fit)
{
	struct time_range ranges[QUERY_RANGES_MAX + 1];
	struct time_blocks blocks;

	for (uint32_t i = 0; i <= QUERY_RANGES_MAX;
	     i++) // each just over a block's border on both sides
		ranges[i] =
			(struct time_range){ (2 * i + 1) * 100 * S - 1, (2 * i + 2) * 100 * S + 1 };
	assert_int_equal(0, time_blocks_of(ranges, QUERY_RANGES_MAX, ALWAYS, &blocks));
	assert_true(blocks.count <= TIME_BLOCKS_MAX);
	assert_int_equal(-EINVAL, time_blocks_of(ranges, QUERY_RANGES_MAX + 1, ALWAYS, &blocks));
	assert_int_equal(-EINVAL, time_blocks_of(ranges, 0, ALWAYS, &blocks));
	ranges[0].to_ns = ranges[0].from_ns;
	assert_int_equal(-EINVAL, time_blocks_of(ranges, 1, ALWAYS, &blocks));
}

RUN_TESTS(cmocka_unit_test(blocks_cover_the_ranges_once),
	  cmocka_unit_test(blocks_of_long_ranges_begin_with_minutes),
	  cmocka_unit_test(only_the_hull_is_cut), cmocka_unit_test(as_many_ranges_as_allowed_fit))
