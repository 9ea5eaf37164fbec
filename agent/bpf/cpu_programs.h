// SPDX-License-Identifier: Apache-2.0
// A BPF program that runs at each of a kernel's software events, such as page faults, by a perf event on
// each online CPU. One thread.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct cpu_programs;

/**
 * Runs @program_fd (owned by the caller) at each event @software_event, PERF_COUNT_SW_... of
 * <linux/perf_event.h>. Returns 0 or a negative errno.
 */
int cpu_programs_open(uint64_t software_event, int program_fd, struct cpu_programs **ret_programs,
		      struct error *err);
/** NULL is allowed. */
void cpu_programs_close(struct cpu_programs *programs);

/** Adapts to CPUs that came or went. Call it every few seconds. */
void cpu_programs_update(struct cpu_programs *programs);
