// SPDX-License-Identifier: Apache-2.0
// For how long processes' GPUs were certainly idle: what the kernel programs have added up so far, told in each
// window. A lower bound. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/export_interval.h"
#include "bpf/gpu/gpu_idle.h"

/** What was told of each process. All zero: nothing yet. */
struct gpu_idle_time {
	struct gpu_idle_told {
		struct process_key process;
		uint64_t ns;
		uint32_t round; // when it was seen last
	} * told;
	uint32_t count, capacity;
	uint32_t round;
};

void gpu_idle_time_deinit(struct gpu_idle_time *time);
/**
 * Add what there is of it in map @fd since the last time, spread over @window, which ends now. Returns 0 or a
 * negative errno.
 */
int gpu_idle_time_add(struct gpu_idle_time *time, int fd, struct export_interval *interval);
