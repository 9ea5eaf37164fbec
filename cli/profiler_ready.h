// SPDX-License-Identifier: Apache-2.0
// Says what is measured, when measuring begins, and how complete the first stacks are.
#pragma once

#include <stdint.h>

#include "agent/profiler.h"
#include "base/error.h"
#include "cli/recorded_type.h"

/** Does @profiler measure @type? Returns 0, or -EOPNOTSUPP with the reason in @err. */
int profiler_ready_check(const struct profiler *profiler, const struct recorded_type *type,
			 struct event_log *events, struct error *err);

/** "cairn record: ready after 0.21 s: 143 processes, 0 still without tables", on standard error. */
void profiler_ready_print(const struct profiler *profiler, uint64_t after_ns, const char *command);
