// SPDX-License-Identifier: Apache-2.0
// GPU idle time (no work queued) of each process: exports what the BPF programs have added up since the last export
// interval. A lower bound. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/export_interval.h"
#include "bpf/gpu/gpu_idle.h"

/** Zeroed it is empty. */
struct gpu_idle_time {
	struct gpu_idle_exported {
		struct process_key process;
		uint64_t ns;    // exported so far
		uint32_t round; // the last one with this process
	} * exported;
	uint32_t count, capacity;
	uint32_t round;
};

void gpu_idle_time_deinit(struct gpu_idle_time *time);
/**
 * Add the growth of the sums in map @fd since the last call, spread over @interval, which ends now. Returns 0 or a
 * negative errno.
 */
int gpu_idle_time_add(struct gpu_idle_time *time, int fd, struct export_interval *interval);
