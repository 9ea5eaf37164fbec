// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/cost_estimate.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * What each of these takes, measured with the kernel's statistics on a busy virtual machine of two CPUs
 * (x86-64, Linux 6.18), where caches are cold. Elsewhere it is rather less: an agent that does not know
 * should not cost more than it thinks.
 */
#define SWITCH_NS  200
#define UNWOUND_NS 8000

static const struct {
	const char *program;
	enum bpf_counter counter;
	uint32_t each_ns;
} parts[] = {
	{ "sample_on_cpu", COUNTER_SAMPLES, 12000 },
	{ "sample_on_cpu", COUNTER_TICKS_IDLE, 500 },
	{ "sample_on_cpu", COUNTER_SAMPLES_FILTERED, 500 },
	{ "switch_threads", COUNTER_SWITCHES, SWITCH_NS },
	{ "switch_threads", COUNTER_OFF_CPU_UNWOUND, UNWOUND_NS },
	{ "thread_woken", COUNTER_WAKES, 200 },
	{ "thread_woken", COUNTER_WAKES_UNWOUND, UNWOUND_NS },
	{ "fault_handled", COUNTER_FAULTS_SAMPLED, 6000 },
};

uint32_t cost_estimate(const uint64_t counters[COUNTER_COUNT],
		       struct program_cost ret_costs[BPF_COST_PROGRAMS_MAX])
{
	uint32_t count = 0;

	// Parts of a program stand together.
	for (uint32_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!count || strcmp(ret_costs[count - 1].name, parts[i].program) != 0) {
			ret_costs[count] = (struct program_cost){ 0 };
			snprintf(ret_costs[count].name, sizeof(ret_costs[count].name), "%s",
				 parts[i].program);
			count++;
		}
		ret_costs[count - 1].runs += counters[parts[i].counter];
		ret_costs[count - 1].run_ns += counters[parts[i].counter] * parts[i].each_ns;
	}
	return count;
}

double cost_estimate_stacks(const uint64_t before[COUNTER_COUNT], const uint64_t now[COUNTER_COUNT])
{
	double switches = (double)(now[COUNTER_SWITCHES] - before[COUNTER_SWITCHES]);
	double unwound = (double)(now[COUNTER_OFF_CPU_UNWOUND] - before[COUNTER_OFF_CPU_UNWOUND]);
	double sum_ns = switches * SWITCH_NS + unwound * UNWOUND_NS;

	return sum_ns > 0 ? unwound * UNWOUND_NS / sum_ns : 0.5;
}
