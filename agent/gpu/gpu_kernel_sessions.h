// SPDX-License-Identifier: Apache-2.0
// Time of kernels on GPUs by the stack that launched them: now and then a window of the CUPTI helper
// (cupti_session.h) in each process that was started with it, one process at a time. The launches that it tells of
// leave their stacks with the kernel programs, and its records how long each one's kernels took. One thread.
#pragma once

#include <stdint.h>

#include "agent/gpu/gpu_driver.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/gpu/gpu_kernel_request.h"
#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "base/event_log.h"

enum {
	KERNEL_PROCESSES_MAX = 256, // with the helper, on a node
	KERNEL_WINDOW_MS = 1000,    // half of it measures
	// Launches told to the probe in a window: 5 us each are a quarter of a percent of it.
	KERNEL_LAUNCHES_TOLD = 500,
	KERNEL_ONE_IN_FIRST = 64, // before it is known how many launches there are
};

/** Between two windows of a process, unless another time is set. */
#define KERNEL_PERIOD_NS (300ULL * 1000000000)

struct gpu_kernel_sessions;

struct gpu_kernel_sessions_options {
	struct gpu_programs *programs; // these outlive it
	const struct gpu_drivers *drivers;
	struct process_table *processes;
	struct event_log *events; // may be NULL
	uint64_t period_ns;       // 0: KERNEL_PERIOD_NS
	struct gpu_kernel_request
		*request; // the only window, then; NULL: one now and then in each process
};

/** NULL when out of memory. */
struct gpu_kernel_sessions *gpu_kernel_sessions_new(
	const struct gpu_kernel_sessions_options *options);
/** Takes an open window back. NULL is allowed. */
void gpu_kernel_sessions_free(struct gpu_kernel_sessions *windows);

/** Some 50 times a second: windows are opened, and their answers taken. */
void gpu_kernel_sessions_tick(struct gpu_kernel_sessions *windows, uint64_t now_ns);
/** All stacks have come: add what the last window showed. Returns 0 or a negative errno. */
int gpu_kernel_sessions_after_drain(struct gpu_kernel_sessions *windows,
				    struct export_interval *window);

/** What the helpers' own code took of the processes, so far. */
uint64_t gpu_kernel_sessions_cost_ns(const struct gpu_kernel_sessions *windows);
