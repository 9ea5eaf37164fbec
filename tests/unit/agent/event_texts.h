// SPDX-License-Identifier: Apache-2.0
// What was posted to an event log, for tests.
#pragma once

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

#include "base/event_log.h"

/** Take the oldest event: "subject: text", in a buffer that the next call overwrites. NULL: none. */
static inline const char *next_event_text(struct event_log *events)
{
	static char text[EVENT_TEXT_BYTES + 64];
	struct event event;

	if (!event_log_next(events, &event))
		return NULL;
	snprintf(text, sizeof(text), "%s: %s", event.subject, event.text);
	return text;
}

/** Take all events. Did one have @part? */
static inline bool any_event_has(struct event_log *events, const char *part)
{
	const char *text;
	bool has = false;

	while ((text = next_event_text(events)))
		has |= strstr(text, part) != NULL;
	return has;
}

static inline void fail_on_event(struct event_log *events)
{
	const char *text = next_event_text(events);

	if (text)
		fail_msg("%s", text);
}
