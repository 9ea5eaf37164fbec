// SPDX-License-Identifier: Apache-2.0
// Processes killed by the kernel's out-of-memory killer, each counted for its own service. The event of a
// process's exit says so: no cgroup need be read, which may be gone by then. One thread.
#pragma once

#include <stdint.h>

#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"

enum { OOM_KILLS_MAX = 1024 }; // in an export interval

struct oom_kills;

/** @processes outlives it. NULL when out of memory. */
struct oom_kills *oom_kills_new(struct process_table *processes);
/** NULL is allowed. */
void oom_kills_free(struct oom_kills *kills);

/** Take an event of a process, before the process table applies it. @realtime_ns: Unix time now. */
void oom_kills_take(struct oom_kills *kills, const struct process_record *record,
		    uint64_t realtime_ns);

/** Add those since the last call. Returns 0 or a negative errno. */
int oom_kills_add(struct oom_kills *kills, struct export_interval *interval);

/** Kills that were not counted, so far: more than OOM_KILLS_MAX, or out of memory. */
uint64_t oom_kills_dropped(const struct oom_kills *kills);
