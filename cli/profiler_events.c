// SPDX-License-Identifier: Apache-2.0
#include "cli/profiler_events.h"

#include <stdio.h>

void profiler_events_print(struct event_log *events, const char *command)
{
	struct event event;

	while (event_log_next(events, &event))
		fprintf(stderr, "%s: %s: %s\n", command, event.subject, event.text);
}

void profiler_events_take_last(struct event_log *events, char *text, size_t size)
{
	struct event event;

	while (event_log_next(events, &event))
		snprintf(text, size, "%s: %s", event.subject, event.text);
}
