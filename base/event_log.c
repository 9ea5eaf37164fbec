// SPDX-License-Identifier: Apache-2.0
#include "base/event_log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct event_log {
	pthread_mutex_t lock;
	struct event events[EVENTS_MAX]; // a ring
	uint32_t first, count;
	uint64_t dropped, reported_dropped;
};

struct event_log *event_log_new(void)
{
	struct event_log *log = calloc(1, sizeof(*log));

	if (log)
		pthread_mutex_init(&log->lock, NULL);
	return log;
}

void event_log_free(struct event_log *log)
{
	if (!log)
		return;
	pthread_mutex_destroy(&log->lock);
	free(log);
}

static bool is_waiting(const struct event_log *log, const struct event *event)
{
	for (uint32_t i = 0; i < log->count; i++) {
		const struct event *waiting = &log->events[(log->first + i) % EVENTS_MAX];

		if (!strcmp(waiting->subject, event->subject) &&
		    !strcmp(waiting->text, event->text))
			return true;
	}
	return false;
}

void event_post(struct event_log *log, enum log_level severity, const char *subject,
		const char *format, ...)
{
	struct event event = { .severity = severity, .subject = subject };
	va_list args;

	if (!log)
		return;
	va_start(args, format);
	vsnprintf(event.text, sizeof(event.text), format, args);
	va_end(args);
	pthread_mutex_lock(&log->lock);
	if (!is_waiting(log, &event)) {
		if (log->count < EVENTS_MAX)
			log->events[(log->first + log->count++) % EVENTS_MAX] = event;
		else
			log->dropped++;
	}
	pthread_mutex_unlock(&log->lock);
}

static bool next_dropped(struct event_log *log, struct event *ret_event)
{
	if (log->dropped == log->reported_dropped)
		return false;
	*ret_event = (struct event){ .severity = LOG_LEVEL_WARN, .subject = "events" };
	snprintf(ret_event->text, sizeof(ret_event->text),
		 "dropped %llu log lines: queue full (limit %d)",
		 (unsigned long long)(log->dropped - log->reported_dropped), EVENTS_MAX);
	log->reported_dropped = log->dropped;
	return true;
}

bool event_log_next(struct event_log *log, struct event *ret_event)
{
	pthread_mutex_lock(&log->lock);
	bool is_any = log->count != 0;
	if (is_any) {
		*ret_event = log->events[log->first];
		log->first = (log->first + 1) % EVENTS_MAX;
		log->count--;
	} else {
		is_any = next_dropped(log, ret_event);
	}
	pthread_mutex_unlock(&log->lock);
	return is_any;
}

uint64_t event_log_dropped(struct event_log *log)
{
	pthread_mutex_lock(&log->lock);
	uint64_t dropped = log->dropped;
	pthread_mutex_unlock(&log->lock);
	return dropped;
}
