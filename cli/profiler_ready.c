// SPDX-License-Identifier: Apache-2.0
#include "cli/profiler_ready.h"

#include <stdio.h>

#include "base/clock.h"

void profiler_ready_print(const struct profiler *profiler, uint64_t after_ns, const char *command)
{
	struct profiler_stats stats;

	profiler_read_stats(profiler, &stats);
	fprintf(stderr, "%s: ready after %.2f s: %u process%s, %u still without tables\n", command,
		(double)after_ns / NS_PER_SECOND, stats.ready.processes,
		stats.ready.processes == 1 ? "" : "es", stats.ready.waiting);
}
