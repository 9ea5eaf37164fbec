// SPDX-License-Identifier: Apache-2.0
// Says when measuring begins, and how complete the first stacks are.
#pragma once

#include <stdint.h>

#include "agent/profiler.h"

/** "cairn record: ready after 0.21 s: 143 processes, 0 still without tables", on standard error. */
void profiler_ready_print(const struct profiler *profiler, uint64_t after_ns, const char *command);
