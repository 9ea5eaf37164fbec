// SPDX-License-Identifier: Apache-2.0
// CPU time that a thread may spend on work whose cost it does not know before, such as reading /proc:
// so much a second, saved up for a second. What was spent too much is paid back before the next time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** One thread. */
struct cpu_allowance {
	uint64_t ns_per_second; // set by who has it
	uint64_t granted_ns;    // monotonic: up to when it was granted
	uint64_t counted_ns;    // of the thread's CPU time
	int64_t left_ns;
};

/** Work begins: what has been allowed since the last time is there. */
void cpu_allowance_begin(struct cpu_allowance *allowance, uint64_t now_ns);

/** Count what the thread has run since the last call. Returns whether anything is left. */
bool cpu_allowance_is_left(struct cpu_allowance *allowance);
