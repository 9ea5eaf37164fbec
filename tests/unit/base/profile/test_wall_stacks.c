// SPDX-License-Identifier: Apache-2.0
// Wall-clock time, which has no stacks, and the types that have them: what each stack gets of it.

#include <string.h>

#include "tests/test.h"

#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/thread_states.h"
#include "base/profile/wall_stacks.h"

static struct profile *profile;

static uint32_t series_of(const char *type, const char *thread, const char *label,
			  const char *value)
{
	struct labels labels = { 0 };
	uint32_t series;

	assert_int_equal(0, labels_set(&labels, "thread", thread));
	assert_int_equal(0, labels_set(&labels, label, value));
	assert_int_equal(0, profile_add_series(profile, &labels, type, &series));
	labels_deinit(&labels);
	return series;
}

/* Stack 0 has no frames. */
static uint32_t stack_of(uint8_t number)
{
	struct location location = { .id = id128_of(&number, sizeof(number)) };
	uint32_t place, stack;

	assert_int_equal(0, profile_add_location(profile, &location, NULL, 0, &place));
	assert_int_equal(
		0, profile_add_stack(profile, &place, number ? 1 : 0, STACK_END_COMPLETE, &stack));
	return stack;
}

static void add(uint32_t series, uint8_t stack, int64_t value)
{
	assert_int_equal(0, profile_add_sample(profile, series, stack_of(stack), 0, value));
}

/* The wall-clock series of what thread @thread waited for. */
static uint32_t waits_of(const char *thread, const char *wait)
{
	struct labels labels = { 0 };
	uint32_t series;

	assert_int_equal(0, labels_set(&labels, "thread", thread));
	assert_int_equal(0, labels_set(&labels, LABEL_STATE, THREAD_STATE_BLOCKED));
	assert_int_equal(0, labels_set(&labels, LABEL_WAIT, wait));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_WALL, &series));
	labels_deinit(&labels);
	return series;
}

static int64_t sum_of(uint32_t series, uint8_t stack)
{
	uint32_t wanted = stack_of(stack);
	int64_t sum = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++)
		if (profile->samples[i].series == series && profile->samples[i].stack == wanted)
			sum += profile->samples[i].value;
	return sum;
}

TEST(divides_exact_time_among_stacks)
{
	profile = profile_new(1000000000);
	uint32_t running = series_of(PROFILE_TYPE_WALL, "a", LABEL_STATE, THREAD_STATE_RUNNING);
	uint32_t blocked = series_of(PROFILE_TYPE_WALL, "a", LABEL_STATE, THREAD_STATE_BLOCKED);
	uint32_t unseen = series_of(PROFILE_TYPE_WALL, "b", LABEL_STATE, THREAD_STATE_RUNNING);
	uint32_t cpu = series_of(PROFILE_TYPE_CPU, "a", "thread", "a");
	uint32_t locks = series_of(PROFILE_TYPE_OFF_CPU, "a", LABEL_WAIT, "lock");
	uint32_t reads = series_of(PROFILE_TYPE_OFF_CPU, "a", LABEL_WAIT, "disk");
	uint32_t other = series_of(PROFILE_TYPE_CPU, "c", "thread", "c");
	uint32_t polling = series_of(PROFILE_TYPE_WALL, "d", LABEL_STATE, THREAD_STATE_RUNNING);
	uint32_t spin = series_of(PROFILE_TYPE_GPU_SPIN, "d", "thread", "d");

	add(running, 0, 1000);
	add(blocked, 0, 600);
	add(unseen, 0, 5);
	add(cpu, 1, 30);
	add(cpu, 2, 10);
	add(locks, 3, 200);
	add(reads, 4, 400);
	add(other, 5, 70);
	add(polling, 0, 90);
	add(spin, 6, 45);
	assert_int_equal(0, wall_stacks_compose(profile));

	EXPECT_EQ(750, sum_of(running, 1), "three of four samples");
	EXPECT_EQ(250, sum_of(running, 2), "one of four");
	EXPECT_EQ(0, sum_of(running, 0), "nothing is without a stack");
	EXPECT_EQ(200, sum_of(waits_of("a", "lock"), 3), "of one wait class");
	EXPECT_EQ(400, sum_of(waits_of("a", "disk"), 4), "and of another");
	EXPECT_EQ(5, sum_of(unseen, 0), "a thread without a sample");
	EXPECT_EQ(90, sum_of(polling, 6), "GPU busy-wait is running, too");
	EXPECT_EQ(6, profile->sample_count, "the other types are used up");
	profile_free(profile);
}

TEST(rounding_loses_nothing)
{
	profile = profile_new(1000000000);
	uint32_t running = series_of(PROFILE_TYPE_WALL, "a", LABEL_STATE, THREAD_STATE_RUNNING);
	uint32_t cpu = series_of(PROFILE_TYPE_CPU, "a", "thread", "a");
	int64_t sum = 0;

	add(running, 0, 1000003);
	for (uint8_t i = 1; i <= 7; i++)
		add(cpu, i, 1);
	assert_int_equal(0, wall_stacks_compose(profile));
	for (uint32_t i = 0; i < profile->sample_count; i++)
		sum += profile->samples[i].value;
	assert_in_range(sum, 1000002, 1000003);
	profile_free(profile);
}

RUN_TESTS(cmocka_unit_test(divides_exact_time_among_stacks),
	  cmocka_unit_test(rounding_loses_nothing))
