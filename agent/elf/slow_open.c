// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/slow_open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Freed by the last of the two threads. */
struct request {
	slow_open_fn fn;
	int folder;
	uint64_t flags;
	uint64_t inode;
	pthread_mutex_t lock;
	pthread_cond_t finished; // of CLOCK_MONOTONIC
	bool is_finished;
	bool is_abandoned;
	int result;
	char path[PATH_MAX];
};

static atomic_uint abandoned_count;

static void free_request(struct request *request)
{
	pthread_mutex_destroy(&request->lock);
	pthread_cond_destroy(&request->finished);
	close(request->folder);
	free(request);
}

static void *serve(void *argument)
{
	struct request *request = argument;
	int result = request->fn(request->folder, request->path, request->flags, request->inode);

	pthread_mutex_lock(&request->lock);
	request->result = result;
	request->is_finished = true;
	bool is_abandoned = request->is_abandoned;
	pthread_cond_signal(&request->finished);
	pthread_mutex_unlock(&request->lock);
	if (!is_abandoned)
		return NULL;
	if (result >= 0)
		close(result);
	free_request(request);
	atomic_fetch_sub(&abandoned_count, 1);
	return NULL;
}

static struct request *new_request(slow_open_fn fn, int folder, const char *path, uint64_t flags,
				   uint64_t inode)
{
	struct request *request = calloc(1, sizeof(*request));
	pthread_condattr_t attributes;

	if (!request)
		return NULL;
	*request = (struct request){ .fn = fn, .flags = flags, .inode = inode };
	request->folder = fcntl(folder, F_DUPFD_CLOEXEC, 3);
	strcpy(request->path, path);
	pthread_mutex_init(&request->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&request->finished, &attributes);
	pthread_condattr_destroy(&attributes);
	return request;
}

/* Signals are for the main thread. */
static int start(struct request *request)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int rc = pthread_create(&thread, &attributes, serve, request);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -rc;
}

/* True when @request has its result; else the other thread owns it. */
static bool wait_for(struct request *request)
{
	uint64_t until_ns = clock_monotonic_ns() + SLOW_OPEN_WAIT_MS * NS_PER_MS;
	struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
				  .tv_nsec = (long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	pthread_mutex_lock(&request->lock);
	while (!request->is_finished && !rc)
		rc = pthread_cond_timedwait(&request->finished, &request->lock, &until);
	bool is_finished = request->is_finished;
	request->is_abandoned = !is_finished;
	if (!is_finished)
		atomic_fetch_add(&abandoned_count, 1);
	pthread_mutex_unlock(&request->lock);
	return is_finished;
}

int slow_open(slow_open_fn fn, int folder, const char *path, uint64_t flags, uint64_t inode)
{
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (atomic_load(&abandoned_count) >= SLOW_OPENS_MAX)
		return -EBUSY;
	struct request *request = new_request(fn, folder, path, flags, inode);
	if (!request)
		return -ENOMEM;
	int rc = start(request);
	if (rc) {
		free_request(request);
		return rc;
	}
	if (!wait_for(request))
		return -ETIMEDOUT;
	int result = request->result;
	free_request(request);
	return result;
}
