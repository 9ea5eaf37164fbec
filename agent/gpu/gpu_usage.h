// SPDX-License-Identifier: Apache-2.0
// What the GPUs of this machine do, once a second, from the driver's management library: gauges of each
// GPU and of each process on it, for the window in hand. The library is asked by a thread of its own,
// because a driver may not answer for seconds. A machine without the library costs one look a minute.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/sources/source.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"

enum {
	// Between two windows: some 30 a second of each GPU, 30 s of 64 GPUs.
	GPU_USAGE_VALUES_MAX = 65536,
};

struct gpu_usage;

struct gpu_usage_options {
	const char *library; // NULL: the driver's (agent/gpu/nvml.h)
	uint64_t slot_ns;
	const struct process_table *processes; // outlives this
	const struct labels *labels;           // --label; copied
	struct event_log *events;              // of GPUs lost or unreadable; may be NULL
	uint64_t reopen_ns; // a GPU's silence after which the library is begun anew; 0: a minute
};

/** Start reading. Returns 0 also where there is no GPU; -ENOMEM or another negative errno. */
int gpu_usage_open(const struct gpu_usage_options *options, struct gpu_usage **ret_usage,
		   struct error *err);
/** Waits for the library's answer, but no longer than a second: then the thread is left behind. */
void gpu_usage_close(void *usage);

/** Add what was read since the last call. Returns 0 or -ENOMEM. */
int gpu_usage_add(void *usage, struct export_interval *interval);

extern const struct source gpu_usage_source;
