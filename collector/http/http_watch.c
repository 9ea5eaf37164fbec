// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"

#define INTERVAL_NS (200 * NS_PER_MS)

struct http_watched {
	int fd;
	uint64_t deadline_ns; // monotonic; 0: none
	struct http_watched *next, **at;
};

struct http_watch {
	void (*late)(void *context);
	void *context;
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; // guards the fields below
	pthread_cond_t changed;
	struct http_watched *first;
	bool closing;
};

// libmicrohttpd notices the end, and closes the descriptor after http_watch_remove().
static void end_late(struct http_watch *watch, uint64_t now_ns)
{
	for (struct http_watched *at = watch->first; at; at = at->next) {
		if (!at->deadline_ns || now_ns < at->deadline_ns)
			continue;
		at->deadline_ns = 0;
		shutdown(at->fd, SHUT_RDWR);
		watch->late(watch->context);
	}
}

static void *look(void *argument)
{
	struct http_watch *watch = argument;

	pthread_setname_np(pthread_self(), "http-watch");
	pthread_mutex_lock(&watch->lock);
	while (!watch->closing) {
		uint64_t until_ns = clock_monotonic_ns() + INTERVAL_NS;
		const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
						.tv_nsec = until_ns % NS_PER_SECOND };

		pthread_cond_clockwait(&watch->changed, &watch->lock, CLOCK_MONOTONIC, &until);
		end_late(watch, clock_monotonic_ns());
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

void http_watch_close(struct http_watch *watch)
{
	if (!watch)
		return;

	pthread_mutex_lock(&watch->lock);
	watch->closing = true;
	pthread_cond_signal(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
	if (watch->has_thread)
		pthread_join(watch->thread, NULL);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}

struct http_watch *http_watch_open(void (*late)(void *context), void *context)
{
	struct http_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->late = late;
	watch->context = context;
	pthread_mutex_init(&watch->lock, NULL);
	pthread_cond_init(&watch->changed, NULL);
	watch->has_thread = !pthread_create(&watch->thread, NULL, look, watch);
	if (!watch->has_thread) {
		http_watch_close(watch);
		return NULL;
	}
	return watch;
}

struct http_watched *http_watch_add(struct http_watch *watch, int fd)
{
	struct http_watched *watched = calloc(1, sizeof(*watched));

	if (!watched)
		return NULL;
	watched->fd = fd;
	pthread_mutex_lock(&watch->lock);
	watched->next = watch->first;
	watched->at = &watch->first;
	if (watched->next)
		watched->next->at = &watched->next;
	watch->first = watched;
	pthread_mutex_unlock(&watch->lock);
	return watched;
}

void http_watch_remove(struct http_watch *watch, struct http_watched *watched)
{
	if (!watched)
		return;

	pthread_mutex_lock(&watch->lock);
	*watched->at = watched->next;
	if (watched->next)
		watched->next->at = watched->at;
	pthread_mutex_unlock(&watch->lock);
	free(watched);
}

void http_watch_set(struct http_watch *watch, struct http_watched *watched, uint64_t ms)
{
	if (!watched)
		return;

	pthread_mutex_lock(&watch->lock);
	watched->deadline_ns = ms ? clock_monotonic_ns() + ms * NS_PER_MS : 0;
	pthread_mutex_unlock(&watch->lock);
}
