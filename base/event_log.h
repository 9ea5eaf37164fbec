// SPDX-License-Identifier: Apache-2.0
// Events for the operator: what works less well than it could, and why. Modules below the edges post
// them, the main loop logs them. A line reads `subject: what happened: cause (number, limit); what to do`.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum {
	EVENT_TEXT_BYTES = 1024, // a line of the log has 2048
	EVENTS_MAX = 64,         // that wait: the agent reads them twice a second
};

struct event {
	enum log_level severity;
	const char *subject; // a constant: "governor"
	char text[EVENT_TEXT_BYTES];
};

struct event_log;

/** NULL when out of memory. */
struct event_log *event_log_new(void);
/** NULL is allowed. */
void event_log_free(struct event_log *log);

static inline void event_log_freep(struct event_log **log)
{
	event_log_free(*log);
}

/**
 * Post an event, from any thread. One that still waits is not posted twice; one that finds EVENTS_MAX
 * waiting is dropped and counted. A NULL @log ignores it.
 */
void event_post(struct event_log *log, enum log_level severity, const char *subject,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

#define event_info(log, ...) event_post((log), LOG_LEVEL_INFO, __VA_ARGS__)
#define event_warn(log, ...) event_post((log), LOG_LEVEL_WARN, __VA_ARGS__)
/** Only once for each *@is_posted. */
#define event_post_once(log, severity, is_posted, ...)          \
	do {                                                    \
		if (!*(is_posted)) {                            \
			*(is_posted) = true;                    \
			event_post(log, severity, __VA_ARGS__); \
		}                                               \
	} while (0)
#define event_info_once(log, is_posted, ...) \
	event_post_once(log, LOG_LEVEL_INFO, is_posted, __VA_ARGS__)
#define event_warn_once(log, is_posted, ...) \
	event_post_once(log, LOG_LEVEL_WARN, is_posted, __VA_ARGS__)

/** The oldest that waits; false: none does. What was dropped since the last call comes as the last one. */
bool event_log_next(struct event_log *log, struct event *ret_event);

/** Events dropped since the beginning. */
uint64_t event_log_dropped(struct event_log *log);
