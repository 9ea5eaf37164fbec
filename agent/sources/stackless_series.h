// SPDX-License-Identifier: Apache-2.0
// The lane of numbers that have no stacks: what quotas and a lack of memory did to control groups, and
// how much memory processes have. It comes with the lanes that it belongs to. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"

struct stackless_series;

struct stackless_series_options {
	struct process_table *processes; // outlives it
	bool throttling;                 // belongs to the wall clock
	bool memory;
	struct event_log *events; // of what is left out or lost; may be NULL
};

/** Where a machine has not all of it, the rest runs. Returns 0, or -ENOMEM. */
int stackless_series_open(const struct stackless_series_options *options,
			  struct stackless_series **ret_series, struct error *err);
/** NULL is allowed. */
void stackless_series_close(struct stackless_series *series);

void stackless_series_tick(struct stackless_series *series, uint64_t now_ns);
void stackless_series_before_drain(struct stackless_series *series);
/** Returns 0 or a negative errno: not all is in. */
int stackless_series_after_drain(struct stackless_series *series, struct export_interval *interval);
