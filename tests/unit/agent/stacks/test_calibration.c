// SPDX-License-Identifier: Apache-2.0
// Off-CPU time by stack adds up to the exact sums, whatever the counts say.
#include <errno.h>
#include <string.h>

#include "tests/test.h"

#include "agent/stacks/calibration.h"

#define HUGE (UINT64_MAX - 1)

/* What is scaled from a few values, to what sums. */
struct row {
	const char *what;
	uint64_t total, exact[4], sampled[4];
	uint64_t to_exact, to_sampled, missing;
};

static const struct row rows[] = {
	{ "nothing", 0, { 0 }, { 0 }, 0, 0, 0 },
	{ "exact values are the sum", 60, { 10, 20, 30 }, { 0 }, 60, 0, 0 },
	{ "sampled values get the rest", 100, { 10, 20 }, { 3, 4 }, 30, 70, 0 },
	{ "sampled values are too much", 100, { 10, 20 }, { 3000, 4000 }, 30, 70, 0 },
	{ "sampled values only", 7, { 0 }, { 64, 64, 64 }, 0, 7, 0 },
	{ "exact values are too much", 50, { 10, 20, 30 }, { 0 }, 50, 0, 0 },
	{ "no time is left for sampled values", 50, { 10, 20, 30 }, { 64 }, 50, 0, 0 },
	{ "a little is missing", 62, { 10, 20, 30 }, { 0 }, 62, 0, 0 },
	{ "much is missing", 600, { 10, 20, 30 }, { 0 }, 60, 0, 540 },
	{ "a sum without stacks", 1000, { 0 }, { 0 }, 0, 0, 1000 },
	{ "stacks without a sum", 0, { 10, 20 }, { 30 }, 0, 0, 0 },
	{ "sampled stacks without a sum", 0, { 0 }, { 30 }, 0, 0, 0 },
	{ "zero values", 10, { 0, 0 }, { 0, 5, 0 }, 0, 10, 0 },
	{ "weights beyond 2^32",
	  1ULL << 41,
	  { 1 },
	  { 1ULL << 62, 1ULL << 45 },
	  1,
	  (1ULL << 41) - 1,
	  0 },
	{ "a large sum of small values", HUGE, { 1 }, { 1, 1, 1 }, 1, HUGE - 1, 0 },
	{ "values that overflow", 1000, { 0 }, { HUGE, HUGE, HUGE }, 0, 1000, 0 },
	{ "exact values that overflow", 1000, { HUGE, HUGE }, { 0 }, 1000, 0, 0 },
	{ "all of it overflows", HUGE, { HUGE, HUGE }, { HUGE, HUGE }, HUGE, 0, 0 },
};

static void add_row(struct calibration_sum *sum, const struct row *row)
{
	const struct count_key key = { .slot = 1 };

	for (int i = 0; i < 4; i++) {
		calibration_add_stack(sum, row->exact[i], false);
		calibration_add_stack(sum, row->sampled[i], true);
	}
	calibration_add_total(sum, &key, row->total);
	calibration_fit(sum);
}

TEST(values_add_up_to_the_sum)
{
	for EACH (row, rows) {
		struct calibration_sum sum = { 0 };
		uint64_t exact = 0, sampled = 0;

		add_row(&sum, row);
		for (int i = 0; i < 4; i++) {
			exact += calibration_scale(&sum, row->exact[i], false);
			sampled += calibration_scale(&sum, row->sampled[i], true);
		}
		EXPECT_EQ(row->to_exact, exact, row->what);
		EXPECT_EQ(row->to_sampled, sampled, row->what);
		EXPECT_EQ(row->missing, sum.missing, row->what);
		EXPECT_EQ(row->total, exact + sampled + sum.missing, row->what);
	}
}

TEST(no_value_exceeds_the_sum)
{
	for EACH (row, rows) {
		struct calibration_sum sum = { 0 };

		add_row(&sum, row);
		for (int i = 0; i < 4; i++) {
			EXPECT_EQ(true, calibration_scale(&sum, row->exact[i], false) <= row->total,
				  row->what);
			EXPECT_EQ(true,
				  calibration_scale(&sum, row->sampled[i], true) <= row->total,
				  row->what);
		}
	}
}

TEST(exact_values_stay_beside_sampled_ones)
{
	const struct row row = { "", 1000, { 100, 200 }, { 64, 128 }, 0, 0, 0 };
	struct calibration_sum sum = { 0 };

	add_row(&sum, &row);
	EXPECT_EQ(100, calibration_scale(&sum, 100, false), "first");
	EXPECT_EQ(233, calibration_scale(&sum, 64, true), "a third of 700");
	EXPECT_EQ(200, calibration_scale(&sum, 200, false), "second");
	EXPECT_EQ(467, calibration_scale(&sum, 128, true), "what is left");
}

TEST(rounding_goes_to_the_next_value)
{
	struct calibration_sum sum = { 0 };
	const struct count_key key = { .slot = 1 };
	uint64_t scaled = 0;

	for (int i = 0; i < 1000; i++)
		calibration_add_stack(&sum, 3, true);
	calibration_add_total(&sum, &key, 1001);
	calibration_fit(&sum);
	for (int i = 1; i <= 1000; i++) {
		scaled += calibration_scale(&sum, 3, true);
		EXPECT_EQ(true, scaled == (uint64_t)(1001 * i / 1000), "never off by one");
	}
}

TEST(more_values_than_were_added_get_nothing)
{
	const struct row row = { "", 1000, { 0 }, { 10 }, 0, 0, 0 };
	struct calibration_sum sum = { 0 };

	add_row(&sum, &row);
	EXPECT_EQ(1000, calibration_scale(&sum, 10, true), "all of it");
	EXPECT_EQ(0, calibration_scale(&sum, 10, true), "again");
	EXPECT_EQ(0, calibration_scale(&sum, HUGE, true), "huge");
	EXPECT_EQ(0, calibration_scale(&sum, 10, false), "none was added");
}

TEST(totals_keep_their_slots)
{
	struct calibration_sum sum = { 0 };

	calibration_add_total(&sum, &(struct count_key){ .slot = 50 }, 0);
	calibration_add_total(&sum, &(struct count_key){ .slot = 100, .more_slots = 9 }, 1);
	calibration_add_total(&sum, &(struct count_key){ .slot = 90, .more_slots = 5 }, 1);
	EXPECT_EQ(90, sum.first_slot, "first");
	EXPECT_EQ(109, sum.last_slot, "last");
	calibration_add_total(&sum, &(struct count_key){ .slot = UINT64_MAX, .more_slots = 9 }, 1);
	EXPECT_EQ(UINT64_MAX, sum.last_slot, "no wrap");
}

TEST(threads_differ_by_process_and_name)
{
	struct calibration calibration = { 0 };
	struct count_key keys[] = {
		{ .process.pid = 1, .thread_name = "a" },
		{ .process.pid = 2, .thread_name = "a" },
		{ .process.pid = 1, .thread_name = "b" },
		{ .process = { .pid = 1, .exec_id = 1 }, .thread_name = "a" },
	};
	uint32_t at;

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < 4; i++) {
			keys[i].slot = pass; // what else a key has does not matter
			EXPECT_EQ(0, calibration_find(&calibration, &keys[i], &at), "found");
			EXPECT_EQ(i, at, "number");
		}
	EXPECT_EQ(4, calibration.count, "threads");
	calibration_deinit(&calibration);
}

RUN_TESTS(cmocka_unit_test(values_add_up_to_the_sum), cmocka_unit_test(no_value_exceeds_the_sum),
	  cmocka_unit_test(exact_values_stay_beside_sampled_ones),
	  cmocka_unit_test(rounding_goes_to_the_next_value),
	  cmocka_unit_test(more_values_than_were_added_get_nothing),
	  cmocka_unit_test(totals_keep_their_slots),
	  cmocka_unit_test(threads_differ_by_process_and_name))
