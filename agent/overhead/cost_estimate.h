// SPDX-License-Identifier: Apache-2.0
// Estimates the run time of BPF programs where the kernel does not report it: its statistics need CAP_SYS_ADMIN,
// which an agent in a container does without. Estimated from what the programs counted.
#pragma once

#include <stdint.h>

#include "agent/overhead/bpf_cost.h"
#include "bpf/bpf_counters.h"

/**
 * The programs whose runs are counted, named as bpf_cost.h names them, with what they have cost since
 * they were loaded. Rates are 0. Returns how many, at most BPF_COST_PROGRAMS_MAX.
 */
uint32_t cost_estimate(const uint64_t counters[COUNTER_COUNT],
		       struct program_cost ret_costs[BPF_COST_PROGRAMS_MAX]);

/** The part of switch_threads' cost that goes into stacks, between two moments; 0.5: not known. */
double cost_estimate_stacks(const uint64_t before[COUNTER_COUNT],
			    const uint64_t now[COUNTER_COUNT]);
