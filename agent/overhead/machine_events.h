// SPDX-License-Identifier: Apache-2.0
// How many context switches and page faults the machine had, by the kernel's own count: what a source would
// cost that is switched off. Any thread.
#pragma once

#include <stdint.h>

struct machine_events {
	uint64_t switches, faults; // since boot; 0: unknown
};

/** From @proc ("/proc"). */
void machine_events_read(const char *proc, struct machine_events *ret_events);
