// SPDX-License-Identifier: Apache-2.0
// GPU telemetry: gauges of each GPU, MIG instance and process on it, read from NVML once a second. A thread of its own calls
// the library, because a driver may block for seconds. Without the library it tries to load it once a minute.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/sources/source.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"

enum {
	GPU_USAGE_VALUES_MAX =
		65536, // per export interval: 30 s of 64 GPUs at some 30 a second each
};

struct gpu_usage;

struct gpu_usage_options {
	const char *library; // NULL: the driver's (agent/gpu/nvml.h)
	uint64_t slot_ns;
	const struct process_table *processes; // outlives this
	const struct labels *labels;           // --label; copied
	struct event_log *events;              // may be NULL
	uint64_t reopen_ns; // reload the library after a GPU has failed for so long; 0: a minute
};

/** Start reading. Returns 0 also where there is no GPU; -ENOMEM or another negative errno. */
int gpu_usage_open(const struct gpu_usage_options *options, struct gpu_usage **ret_usage,
		   struct error *err);
/** Joins the thread; if a driver blocks it for more than a second, detaches it. */
void gpu_usage_close(void *usage);

/** Add the values read since the last call. Returns 0 or -ENOMEM. */
int gpu_usage_add(void *usage, struct export_interval *interval);

extern const struct source gpu_usage_source;
