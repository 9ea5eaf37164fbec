// SPDX-License-Identifier: Apache-2.0
// The source of GPU calls by stack: finds the driver libraries that processes map, probes them, and exports what the
// BPF programs count. Loads nothing until the first process maps one. Open this file first. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/gpu/gpu_kernel_sessions.h"
#include "agent/stacks/frame_resolver.h"
#include "agent/bpf/loader.h"
#include "agent/process/process_table.h"
#include "agent/sources/source.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"

struct gpu_source;

struct gpu_source_options {
	const struct loader *loader; // these outlive the source
	struct process_table *processes;
	struct gpu_namer *namer; // set while GPU kernels can be named; may be NULL
	uint64_t slot_ns;
	bool only_targets;          // only the processes that the sampler samples
	uint64_t cupti_interval_ns; // between CUPTI sessions of a process; 0: the default
	struct gpu_kernel_request
		*gpu_kernel_request; // a single session, and nothing else; NULL: none
	struct event_log *events;    // may be NULL
	const struct labels *labels; // of the overhead's series; copied; may be NULL
};

/** Returns 0 or -ENOMEM. Programs and probes are loaded later; a refusal of the kernel is an event then. */
int gpu_source_open(const struct gpu_source_options *options, struct gpu_source **ret_source,
		    struct error *err);
/** NULL is allowed. */
void gpu_source_close(void *source);

/** Some 50 times a second: finds drivers, runs the probe duty cycle and CUPTI sessions. */
void gpu_source_tick(void *source, uint64_t now_ns);
/**
 * All counts are in @interval: add memory in use, CUDA graph kernels, idle time and GPU kernel times, and the
 * probes' cost as PROFILE_TYPE_OVERHEAD of PROGRAM_GPU_PROBES. Returns 0 or a negative errno.
 */
int gpu_source_after_drain(void *source, struct export_interval *interval);

extern const struct source gpu_calls_source;
