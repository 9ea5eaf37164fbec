// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "agent/overhead/cost_estimate.h"

static uint64_t cost_of(const struct program_cost *costs, uint32_t count, const char *name)
{
	uint64_t sum_ns = 0;
	uint32_t found = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(costs[i].name, name) == 0) {
			sum_ns += costs[i].run_ns;
			found++;
		}
	}
	EXPECT_EQ(1, found, name);
	return sum_ns;
}

TEST(estimates_cost_from_counters)
{
	struct program_cost costs[BPF_COST_PROGRAMS_MAX];
	uint64_t counters[COUNTER_COUNT] = { 0 };

	uint32_t count = cost_estimate(counters, costs);
	EXPECT_EQ(0, cost_of(costs, count, "sample_on_cpu"), "nothing yet");
	counters[COUNTER_SWITCHES] = 1000000;
	count = cost_estimate(counters, costs);
	uint64_t switches_ns = cost_of(costs, count, "switch_threads");
	EXPECT_EQ(0, cost_of(costs, count, "sample_on_cpu"), "still nothing");
	// 100 to 400 ns is what a switch is to take.
	if (switches_ns < 100000000 || switches_ns > 400000000)
		fail_msg("a million switches take %llu ns", (unsigned long long)switches_ns);

	counters[COUNTER_OFF_CPU_UNWOUND] = 1000;
	counters[COUNTER_SAMPLES] = 198;
	count = cost_estimate(counters, costs);
	if (cost_of(costs, count, "switch_threads") <= switches_ns)
		fail_msg("unwinding costs nothing");
	if (cost_of(costs, count, "sample_on_cpu") > 10000000)
		fail_msg("a second of two CPUs' samples takes more than 1 %% of a core");
}

TEST(splits_switch_cost_into_stacks)
{
	uint64_t before[COUNTER_COUNT] = { [COUNTER_SWITCHES] = 5, [COUNTER_OFF_CPU_UNWOUND] = 5 };
	uint64_t now[COUNTER_COUNT] = { [COUNTER_SWITCHES] = 5, [COUNTER_OFF_CPU_UNWOUND] = 5 };

	EXPECT_EQ(50, (int)(100 * cost_estimate_stacks(before, now)), "not known");
	now[COUNTER_SWITCHES] += 1000000;
	EXPECT_EQ(0, (int)(100 * cost_estimate_stacks(before, now)), "no stack");
	now[COUNTER_OFF_CPU_UNWOUND] += 1000;
	EXPECT_EQ(3, (int)(100 * cost_estimate_stacks(before, now)), "few");
	now[COUNTER_OFF_CPU_UNWOUND] += 999000;
	EXPECT_EQ(97, (int)(100 * cost_estimate_stacks(before, now)), "all");
}

RUN_TESTS(cmocka_unit_test(splits_switch_cost_into_stacks),
	  cmocka_unit_test(estimates_cost_from_counters))
