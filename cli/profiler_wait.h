// SPDX-License-Identifier: Apache-2.0
// Waits while the in-process profiler runs.
#pragma once

#include <poll.h>
#include <stdint.h>

#include "agent/profiler.h"
#include "base/error.h"

enum { PROFILER_WAIT_OTHERS_MAX = 4 };

/**
 * Run the profiler's reads and ticks until @deadline_ns (monotonic), or until one of
 * @others has an event (its revents say which). A signal ends the wait early, too.
 * Returns 0, or a negative errno and @err.
 */
int profiler_wait(struct profiler *profiler, uint64_t deadline_ns, struct pollfd *others,
		  uint32_t other_count, struct error *err);

/** Samples and records that the BPF programs dropped. */
uint64_t profiler_stats_dropped(const struct profiler_stats *stats);
/** Samples recorded. */
uint64_t profiler_stats_samples(const struct profiler_stats *stats);
