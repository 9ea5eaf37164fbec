// SPDX-License-Identifier: Apache-2.0
// False positives, where nothing changed, are as rare as said; a change is found. Processes are simulated: single events,
// values of heavy tails (waits), long calls, sides of different length.
#include "tests/test.h"

#include <math.h>

#include "base/cleanup.h"
#include "collector/compare/significance.h"

enum { BLOCKS = 32, TRIES = 2000, FRAMES = 200, ROUNDS = 100 };

static uint64_t random_bits = 88172645463325252ULL;

/** From 0 to 1, neither included. */
static double random_part(void)
{
	random_bits ^= random_bits << 13;
	random_bits ^= random_bits >> 7;
	random_bits ^= random_bits << 17;
	return ((double)(random_bits >> 11) + 0.5) / 9007199254740992.0;
}

static double wait_of(double per_second)
{
	return -log(random_part()) / per_second;
}

/** A side's blocks, while they are filled. */
struct side {
	double seconds;
	int64_t blocks[BLOCKS];
};

static void put(struct side *side, double at, double value)
{
	if (at >= 0 && at < side->seconds)
		side->blocks[(int)(at / side->seconds * BLOCKS)] += (int64_t)(value * 1e6);
}

static void single_events(struct side *side, double per_second)
{
	for (double at = wait_of(per_second); at < side->seconds; at += wait_of(per_second))
		put(side, at, 10);
}

/** Pareto's, whose variance is infinite. */
static void heavy_tails(struct side *side, double per_second)
{
	for (double at = wait_of(per_second); at < side->seconds; at += wait_of(per_second))
		put(side, at, pow(random_part(), -1 / 1.5));
}

/** Calls of half a second, each sampled 50 times: samples are not independent, but blocks of a minute's side are. */
static void long_calls(struct side *side, double per_second)
{
	for (double at = wait_of(per_second); at < side->seconds; at += wait_of(per_second))
		for (int tick = 0; tick < 50; tick++)
			put(side, at + tick * 0.01, 10);
}

static const struct {
	const char *what;
	void (*fill)(struct side *side, double per_second);
	double seconds[2];
	double per_second;
} processes[] = {
	{ "single events", single_events, { 60, 60 }, 2 },
	{ "few single events", single_events, { 60, 60 }, 0.1 },
	{ "a short side", single_events, { 600, 10 }, 2 },
	{ "few in a short side", single_events, { 600, 10 }, 0.1 },
	{ "nearly none in a short side", single_events, { 600, 10 }, 0.02 },
	{ "heavy tails", heavy_tails, { 60, 60 }, 2 },
	{ "heavy tails in a short side", heavy_tails, { 600, 10 }, 2 },
	{ "long calls", long_calls, { 120, 120 }, 0.5 },
};

static double p_of(const struct side sides[2], bool *ret_enough)
{
	struct block_values values[2] = { 0 };
	struct block_weights weights[2] = { 0 };

	for (int side = 0; side < 2; side++)
		for (int block = 0; block < BLOCKS; block++) {
			double weight = sides[side].seconds / BLOCKS;

			block_weights_add(&weights[side], weight);
			block_values_add(&values[side], sides[side].blocks[block], weight);
		}
	return significance_p(values, weights, ret_enough);
}

TEST(false_positives_are_as_rare_as_said)
{
	static const double levels[] = { 0.05, 0.01 };

	for EACH (process, processes) {
		int found[ARRAY_SIZE(levels)] = { 0 };

		for (int try = 0; try < TRIES; try++) {
			struct side sides[2] = { 0 };
			bool enough;

			for (int side = 0; side < 2; side++) {
				sides[side].seconds = process->seconds[side];
				process->fill(&sides[side], process->per_second);
			}
			double p = p_of(sides, &enough);
			for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
				found[i] += enough && p <= levels[i];
		}
		for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
			// Four deviations of so many tries, and a fifth of the level for what p approximates.
			double deviation = sqrt(levels[i] * (1 - levels[i]) * TRIES);
			double limit = 1.2 * levels[i] * TRIES + 4 * deviation;

			if (found[i] > limit)
				fail_msg("%s: %d of %d at %g", process->what, found[i], TRIES,
					 levels[i]);
		}
	}
}

TEST(a_doubled_rate_is_found)
{
	int found = 0;

	for (int try = 0; try < TRIES; try++) {
		struct side sides[2] = { { .seconds = 60 }, { .seconds = 60 } };
		bool enough;

		single_events(&sides[0], 1);
		single_events(&sides[1], 2);
		found += p_of(sides, &enough) <= 0.01;
	}
	assert_true(found > TRIES * 95 / 100);
}

/** Nine of ten frames do not change; those marked that did not are at most as many as said. */
TEST(most_of_what_is_marked_did_change)
{
	double wrong = 0, right = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double ps[FRAMES], sorted[FRAMES];
		int marked = 0, false_marked = 0;

		for (int frame = 0; frame < FRAMES; frame++) {
			struct side sides[2] = { { .seconds = 60 }, { .seconds = 60 } };
			bool enough;

			single_events(&sides[0], 1);
			single_events(&sides[1], frame % 10 ? 1 : 3);
			sorted[frame] = ps[frame] = p_of(sides, &enough);
		}
		double limit = significance_limit(sorted, FRAMES, SIGNIFICANCE_FALSE_DISCOVERIES);
		for (int frame = 0; frame < FRAMES; frame++) {
			marked += ps[frame] <= limit;
			false_marked += ps[frame] <= limit && frame % 10;
		}
		wrong += marked ? (double)false_marked / marked : 0;
		right += marked - false_marked;
	}
	assert_true(wrong / ROUNDS < 1.5 * SIGNIFICANCE_FALSE_DISCOVERIES);
	assert_true(right > 0.9 * ROUNDS * FRAMES / 10);
}

TEST(too_few_blocks_are_no_evidence)
{
	for (int blocks = 0; blocks <= SIGNIFICANCE_BLOCKS_MIN; blocks++) {
		struct side sides[2] = { { .seconds = 60 }, { .seconds = 60 } };
		bool enough;

		for (int block = 0; block < blocks; block++)
			sides[1].blocks[block] = 1000000000;
		double p = p_of(sides, &enough);
		EXPECT_EQ(blocks == SIGNIFICANCE_BLOCKS_MIN, enough, "enough");
		EXPECT_EQ(blocks == SIGNIFICANCE_BLOCKS_MIN, p < 1, "p");
	}
}

TEST(nothing_to_compare_with_is_no_evidence)
{
	struct block_values values[2] = {
		{ 0 }, { .sum = 100, .squares = 1000, .products = 100, .seen = 32 }
	};
	struct block_weights weights[2] = { { 0 }, { .sum = 32, .squares = 32, .count = 32 } };
	bool enough;

	assert_true(significance_p(values, weights, &enough) == 1);
	assert_false(enough);
}

TEST(equal_values_have_not_changed)
{
	struct side sides[2] = { { .seconds = 60 }, { .seconds = 60 } };
	bool enough;

	for (int block = 0; block < BLOCKS; block++)
		sides[0].blocks[block] = sides[1].blocks[block] = INT64_MAX / BLOCKS;
	assert_true(p_of(sides, &enough) == 1);
	assert_true(enough);
}

TEST(the_limit_is_that_of_benjamini_and_hochberg)
{
	// The example of their paper, table 1, at 0.05: the first four are rejected.
	double ps[] = { 0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
			0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000 };

	assert_true(significance_limit(ps, ARRAY_SIZE(ps), 0.05) == 0.0095);
	assert_true(significance_limit(ps, 0, 0.05) < 0);
}

RUN_TESTS(cmocka_unit_test(false_positives_are_as_rare_as_said),
	  cmocka_unit_test(a_doubled_rate_is_found),
	  cmocka_unit_test(most_of_what_is_marked_did_change),
	  cmocka_unit_test(too_few_blocks_are_no_evidence),
	  cmocka_unit_test(nothing_to_compare_with_is_no_evidence),
	  cmocka_unit_test(equal_values_have_not_changed),
	  cmocka_unit_test(the_limit_is_that_of_benjamini_and_hochberg))
