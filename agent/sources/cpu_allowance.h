// SPDX-License-Identifier: Apache-2.0
// A limit of the CPU time that a thread spends on work of unknown length, such as reading /proc: so much a
// second, saved up for a second. What was spent above it is taken from the next second.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** One thread. */
struct cpu_allowance {
	uint64_t ns_per_second; // set by the owner
	uint64_t granted_ns;    // monotonic: up to when it was granted
	uint64_t counted_ns;    // of the thread's CPU time
	int64_t left_ns;
};

/** Work begins: grants the time since the last call. */
void cpu_allowance_begin(struct cpu_allowance *allowance, uint64_t now_ns);

/** Charges the thread's CPU time since the last call. Returns whether any is left. */
bool cpu_allowance_is_left(struct cpu_allowance *allowance);
