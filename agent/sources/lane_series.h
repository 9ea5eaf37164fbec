// SPDX-License-Identifier: Apache-2.0
// The lane of numbers that have no stacks: what quotas and a lack of memory did to control groups, and
// how much memory processes have. It comes with the lanes that it belongs to. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/process.h"
#include "agent/stacks/window.h"
#include "base/error.h"

struct lane_series;

struct lane_series_options {
	struct process_table *processes; // outlives it
	bool throttling;                 // belongs to the wall clock
	bool memory;
};

/** Where a machine has not all of it, the rest runs. Returns 0, or -ENOMEM. */
int lane_series_open(const struct lane_series_options *options, struct lane_series **ret_series,
		     struct error *err);
/** NULL is allowed. */
void lane_series_close(struct lane_series *series);

void lane_series_tick(struct lane_series *series, uint64_t now_ns);
void lane_series_before_drain(struct lane_series *series);
/** Returns 0 or a negative errno: not all is in. */
int lane_series_after_drain(struct lane_series *series, struct window *window);

/** What is left out and what was lost, in sentences, told once; NULL: no more for now. */
const char *lane_series_next_notice(struct lane_series *series);
