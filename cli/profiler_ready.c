// SPDX-License-Identifier: Apache-2.0
#include "cli/profiler_ready.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/profiler_events.h"

int profiler_ready_check(const struct profiler *profiler, const struct recorded_type *type,
			 struct event_log *events, struct error *err)
{
	char reason[ERROR_TEXT_BYTES] = "this kernel cannot";
	struct profiler_stats stats;

	profiler_read_stats(profiler, &stats);
	if ((stats.sources & type->sources) == type->sources)
		return 0;
	profiler_events_take_last(events, reason, sizeof(reason)); // the sources are opened last
	return error_set(err, -EOPNOTSUPP, "--type: %s cannot be measured: %.200s",
			 recorded_type_spec(type)->word, reason);
}

void profiler_ready_print(const struct profiler *profiler, uint64_t after_ns, const char *command)
{
	struct profiler_stats stats;

	profiler_read_stats(profiler, &stats);
	fprintf(stderr, "%s: ready after %.2f s: %u process%s, %u still without tables\n", command,
		(double)after_ns / NS_PER_SECOND, stats.ready.processes,
		stats.ready.processes == 1 ? "" : "es", stats.ready.waiting);
}
