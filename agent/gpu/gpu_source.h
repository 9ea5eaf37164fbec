// SPDX-License-Identifier: Apache-2.0
// What is asked of GPUs, by stack: finds the drivers that processes map, probes them, and counts. Until
// the first process maps one, nothing is loaded. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/gpu/gpu_kernel_request.h"
#include "agent/bpf/loader.h"
#include "agent/process/process_table.h"
#include "agent/sources/source.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"

struct gpu_source;

struct gpu_source_options {
	const struct loader *loader; // these outlive the lane
	struct process_table *processes;
	struct gpu_namer *namer; // is set while kernels can be named; may be NULL
	uint64_t slot_ns;
	bool only_targets;          // as the sampler: only processes that are followed
	uint64_t cupti_interval_ns; // between windows of the CUPTI helper; 0: the default
	struct gpu_kernel_request
		*gpu_kernel_request; // the only one, and all that is looked at; NULL: none
	struct event_log *events;    // may be NULL
	const struct labels *labels; // for the series of what probes cost; copied; may be NULL
};

/** Returns 0 or -ENOMEM: what a kernel refuses is an event, when it is tried. */
int gpu_source_open(const struct gpu_source_options *options, struct gpu_source **ret_lane,
		    struct error *err);
/** NULL is allowed. */
void gpu_source_close(void *source);

/** Some 50 times a second: drivers are looked for, windows opened and closed. */
void gpu_source_tick(void *source, uint64_t now_ns);
/**
 * All counts are in @window: add what the kernel does not count, and as PROFILE_TYPE_OVERHEAD of program
 * PROGRAM_GPU_PROBES what they took from the processes that came by them. Returns 0 or a negative errno.
 */
int gpu_source_after_drain(void *source, struct export_interval *interval);

extern const struct source gpu_calls_source;
