// SPDX-License-Identifier: Apache-2.0
// A kernel program that runs at each of a kernel's software events (page faults, say), on all CPUs:
// a perf event on each, which follows CPUs that come and go. One thread.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct cpu_programs;

/**
 * Run @program_fd, which stays the caller's, at each event @software_event (PERF_COUNT_SW_... of
 * <linux/perf_event.h>). Returns 0 or a negative errno.
 */
int cpu_programs_open(uint64_t software_event, int program_fd, struct cpu_programs **ret_programs,
		      struct error *err);
/** NULL is allowed. */
void cpu_programs_close(struct cpu_programs *programs);

/** Follow CPUs that went online or offline. Call it every few seconds. */
void cpu_programs_follow(struct cpu_programs *programs);
