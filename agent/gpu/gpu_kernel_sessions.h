// SPDX-License-Identifier: Apache-2.0
// GPU kernel time by the stack that launched the GPU kernel. Now and then one process that was started with the
// CUPTI helper gets a CUPTI session (cupti_session.h), one process at a time. The helper samples launches, whose
// stacks the BPF programs keep, and records how long their GPU kernels ran; this module joins the two. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/gpu/cupti_session.h"
#include "agent/gpu/gpu_driver.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "base/event_log.h"

enum {
	GPU_KERNEL_PROCESSES_MAX = 256, // with the helper, on a node
	GPU_KERNEL_SESSION_MS = 1000,   // the second half of it measures
	// Launches sampled in a session: at 5 us each a quarter of a percent of it.
	GPU_KERNEL_LAUNCHES_SAMPLED = 500,
	GPU_KERNEL_ONE_IN_FIRST = 64, // until the launch rate is known
};

/** Mean time between two sessions of a process, by default. */
#define GPU_KERNEL_PERIOD_NS (300ULL * 1000000000)

/**
 * A single session with stacks in one process, for `cairn gpu-kernels`. The caller owns it, and keeps it until the
 * profiler that was opened with it is closed.
 */
struct gpu_kernel_request {
	pid_t pid;
	struct cupti_session_options session;
	bool may_begin; // set by the caller, when stacks can be captured
	// The answer.
	bool has_begun;
	bool is_over; // the next drain brings the stacks and fills in the result
	int rc; // why there is no result; -EBUSY before it is over: another session runs, retried
	struct cupti_result result; // deinitialized by the caller
};

struct gpu_kernel_sessions;

struct gpu_kernel_sessions_options {
	struct gpu_programs *programs; // these outlive it
	const struct gpu_drivers *drivers;
	struct process_table *processes;
	struct event_log *events; // may be NULL
	uint64_t period_ns;       // 0: GPU_KERNEL_PERIOD_NS
	struct gpu_kernel_request
		*request; // the only session; NULL: periodic ones of all processes
};

/** NULL when out of memory. */
struct gpu_kernel_sessions *gpu_kernel_sessions_new(
	const struct gpu_kernel_sessions_options *options);
/** Cancels a running session. NULL is allowed. */
void gpu_kernel_sessions_free(struct gpu_kernel_sessions *sessions);

/** Some 50 times a second: begins sessions and reads their results. */
void gpu_kernel_sessions_tick(struct gpu_kernel_sessions *sessions, uint64_t now_ns);
/** All stacks are drained: add the last session's GPU kernel times. Returns 0 or a negative errno. */
int gpu_kernel_sessions_after_drain(struct gpu_kernel_sessions *sessions,
				    struct export_interval *interval);

/** CPU time that the helpers' own code took from processes so far. */
uint64_t gpu_kernel_sessions_cost_ns(const struct gpu_kernel_sessions *sessions);
