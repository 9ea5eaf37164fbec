// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/debuginfod.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/http_fetch.h"
#include "base/log.h"
#include "base/symbols/debug_cache.h"

enum {
	TIMEOUT_S = 10,
	TRANSFER_S_MAX = 1800,
	REDIRECTIONS_MAX = 5,
	RETRY_S = 60, // after servers could not be reached
	URL_BYTES = 1024,
	ID_TEXT_BYTES = 2 * DEBUG_CACHE_ID_BYTES_MAX + 1,
};

struct debuginfod {
	struct debug_cache cache;
	int (*check)(void *context, int fd, const char *build_id);
	void *check_context;
	char *text;                      // of the URLs
	char *urls[DEBUGINFOD_URLS_MAX]; // within text
	uint32_t url_count;
	uint32_t timeout_s;
	pthread_t thread;
	bool running;
	struct http_fetcher *fetcher; // the thread's
	bool said;                    // that no server answers; the thread's
	struct error failure;         // why the last one did not; the thread's
	atomic_bool stopping;
	atomic_uint_fast64_t answers;
	// under the lock
	pthread_mutex_t lock;
	pthread_cond_t wake;
	char queue[DEBUGINFOD_QUEUE_MAX][ID_TEXT_BYTES]; // the first one is being fetched
	uint32_t queued;
	uint64_t retry_ns; // nothing is asked for before
};

/* ---- one transfer -------------------------------------------------------------------------- */

struct transfer {
	const struct debuginfod *debuginfod;
	int fd;
	uint64_t bytes;
};

static int on_bytes(void *context, const void *bytes, size_t size)
{
	struct transfer *transfer = context;

	if (transfer->bytes + size > transfer->debuginfod->cache.bytes_max ||
	    transfer->bytes + size > DEBUGINFOD_FILE_BYTES_MAX)
		return -EFBIG;
	transfer->bytes += size;
	for (size_t done = 0; done < size;) {
		ssize_t written = write(transfer->fd, (const char *)bytes + done, size - done);

		if (written < 0 && errno != EINTR)
			return -errno;
		done += written < 0 ? 0 : (size_t)written;
	}
	return 0;
}

static bool is_over(void *context)
{
	const struct transfer *transfer = context;

	return atomic_load(&transfer->debuginfod->stopping);
}

/* Returns 0; -ENOENT: the server has none, or sent something else; -EAGAIN: it did not answer. */
static int transfer_from(struct debuginfod *debuginfod, const char *base, const char *build_id,
			 int fd)
{
	struct transfer transfer = { .debuginfod = debuginfod, .fd = fd };
	char url[URL_BYTES];
	const struct http_fetch request = {
		.url = url,
		.protocols = "http,https",
		.redirections_max = REDIRECTIONS_MAX,
		.connect_timeout_s = debuginfod->timeout_s,
		.silence_timeout_s = debuginfod->timeout_s,
		.timeout_s = TRANSFER_S_MAX,
		.on_bytes = on_bytes,
		.is_over = is_over,
		.context = &transfer,
	};
	long status;

	snprintf(url, sizeof(url), "%s/buildid/%s/debuginfo", base, build_id);
	int rc = http_fetch(debuginfod->fetcher, &request, &status, &debuginfod->failure);
	// A server in trouble (5xx, 429) may have it another time.
	if (rc == -EREMOTEIO)
		return status >= 500 || status == 429 ? -EAGAIN : -ENOENT;
	if (rc == -ECANCELED && !is_over(&transfer)) // too big, or no space
		return -ENOENT;
	return rc ? -EAGAIN : 0;
}

static int fetch_from(struct debuginfod *debuginfod, const char *base, const char *build_id)
{
	struct debug_cache_file file;
	int rc = debug_cache_begin(&debuginfod->cache, &file);

	if (!rc)
		rc = transfer_from(debuginfod, base, build_id, file.fd);
	if (!rc && debuginfod->check(debuginfod->check_context, file.fd, build_id))
		rc = -ENOENT;
	if (!rc)
		return debug_cache_keep(&debuginfod->cache, &file, build_id);
	debug_cache_drop(&debuginfod->cache, &file);
	return rc;
}

static int fetch(struct debuginfod *debuginfod, const char *build_id)
{
	bool silent = false;
	int rc = -ENOENT;

	for (uint32_t i = 0; rc && i < debuginfod->url_count; i++) {
		if (atomic_load(&debuginfod->stopping))
			return -EAGAIN;
		rc = fetch_from(debuginfod, debuginfod->urls[i], build_id);
		silent |= rc == -EAGAIN;
	}
	if (rc && silent)
		return -EAGAIN;
	if (rc)
		debug_cache_refuse(&debuginfod->cache, build_id);
	return rc;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void wait_ns(struct debuginfod *debuginfod, uint64_t until_ns)
{
	const struct timespec until = { (time_t)(until_ns / NS_PER_SECOND),
					(long)(until_ns % NS_PER_SECOND) };

	pthread_cond_timedwait(&debuginfod->wake, &debuginfod->lock, &until);
}

static void say_once(struct debuginfod *debuginfod, bool silent)
{
	if (silent && !debuginfod->said)
		log_warn("debuginfod: functions of stripped files stay unnamed: no server answers "
			 "(%s); retrying every %d s",
			 debuginfod->failure.text, RETRY_S);
	if (!silent && debuginfod->said)
		log_info("debuginfod: servers answer again");
	debuginfod->said = silent;
}

/* Fetch the first of the queue, the lock not held meanwhile. */
static void serve_first(struct debuginfod *debuginfod)
{
	char build_id[ID_TEXT_BYTES];

	memcpy(build_id, debuginfod->queue[0], sizeof(build_id));
	pthread_mutex_unlock(&debuginfod->lock);
	int rc = fetch(debuginfod, build_id);
	if (!atomic_load(&debuginfod->stopping))
		say_once(debuginfod, rc == -EAGAIN);
	pthread_mutex_lock(&debuginfod->lock);
	if (rc == -EAGAIN) { // all are asked for again later
		debuginfod->retry_ns = clock_monotonic_ns() + RETRY_S * NS_PER_SECOND;
		debuginfod->queued = 0;
	} else {
		memmove(debuginfod->queue[0], debuginfod->queue[1],
			--debuginfod->queued * sizeof(debuginfod->queue[0]));
	}
	atomic_fetch_add(&debuginfod->answers, 1);
}

static void *run(void *context)
{
	struct debuginfod *debuginfod = context;

	pthread_mutex_lock(&debuginfod->lock);
	while (!atomic_load(&debuginfod->stopping)) {
		uint64_t retry_ns = debuginfod->retry_ns;

		if (debuginfod->queued) {
			serve_first(debuginfod);
		} else if (!retry_ns) {
			pthread_cond_wait(&debuginfod->wake, &debuginfod->lock);
		} else if (clock_monotonic_ns() < retry_ns) {
			wait_ns(debuginfod, retry_ns);
		} else { // whoever waits asks again
			debuginfod->retry_ns = 0;
			atomic_fetch_add(&debuginfod->answers, 1);
		}
	}
	pthread_mutex_unlock(&debuginfod->lock);
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

static int add_url(struct debuginfod *debuginfod, char *url, struct error *err)
{
	size_t size = strlen(url);

	if (strncmp(url, "ima:", 4) == 0) // elfutils' word for checking signatures, no server
		return 0;
	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return error_set(err, -EINVAL,
				 "debuginfod: \"%.60s\" does not begin with http:// or https://",
				 url);
	if (size > URL_BYTES - ID_TEXT_BYTES - 32)
		return error_set(err, -EINVAL, "debuginfod: \"%.60s...\" is too long", url);
	if (debuginfod->url_count == DEBUGINFOD_URLS_MAX)
		return error_set(err, -EINVAL, "debuginfod: more than %d servers",
				 DEBUGINFOD_URLS_MAX);
	while (url[size - 1] == '/')
		url[--size] = '\0';
	debuginfod->urls[debuginfod->url_count++] = url;
	return 0;
}

static int read_urls(struct debuginfod *debuginfod, const char *urls, struct error *err)
{
	char *rest = NULL;
	int rc = 0;

	debuginfod->text = strdup(urls);
	if (!debuginfod->text)
		return error_set(err, -ENOMEM, "debuginfod: out of memory");
	for (char *url = strtok_r(debuginfod->text, " \t\n", &rest); url && !rc;
	     url = strtok_r(NULL, " \t\n", &rest))
		rc = add_url(debuginfod, url, err);
	if (!rc && !debuginfod->url_count)
		rc = error_set(err, -EINVAL, "debuginfod: no server is named");
	return rc;
}

static int start(struct debuginfod *debuginfod, struct error *err)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&debuginfod->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&debuginfod->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	struct error cause = { 0 };
	int rc = http_fetcher_open(&debuginfod->fetcher, &cause);
	if (rc)
		return error_set(err, rc, "debuginfod: %s", cause.text);
	rc = -pthread_create(&debuginfod->thread, NULL, run, debuginfod);
	if (rc)
		return error_errno(err, rc, "debuginfod: thread");
	debuginfod->running = true;
	return 0;
}

int debuginfod_open(const struct debuginfod_options *options, struct debuginfod **ret_debuginfod,
		    struct error *err)
{
	struct debuginfod *debuginfod = calloc(1, sizeof(*debuginfod));

	if (!debuginfod)
		return error_set(err, -ENOMEM, "debuginfod: out of memory");
	debuginfod->cache.folder = -1;
	debuginfod->check = options->check;
	debuginfod->check_context = options->check_context;
	debuginfod->timeout_s = options->timeout_s ? options->timeout_s : TIMEOUT_S;
	int rc = read_urls(debuginfod, options->urls, err);
	if (!rc)
		rc = debug_cache_open(&debuginfod->cache, options->folder, options->cache_bytes,
				      err);
	if (!rc)
		rc = start(debuginfod, err);
	if (rc) {
		debuginfod_close(debuginfod);
		return rc;
	}
	*ret_debuginfod = debuginfod;
	return 0;
}

void debuginfod_close(struct debuginfod *debuginfod)
{
	if (!debuginfod)
		return;
	atomic_store(&debuginfod->stopping, true);
	if (debuginfod->running) {
		pthread_mutex_lock(&debuginfod->lock);
		pthread_cond_signal(&debuginfod->wake);
		pthread_mutex_unlock(&debuginfod->lock);
		pthread_join(debuginfod->thread, NULL);
	}
	http_fetcher_close(debuginfod->fetcher);
	debug_cache_close(&debuginfod->cache);
	free(debuginfod->text);
	free(debuginfod);
}

/* ---- asking -------------------------------------------------------------------------------- */

static void ask(struct debuginfod *debuginfod, const char *build_id)
{
	pthread_mutex_lock(&debuginfod->lock);
	bool asked = debuginfod->retry_ns || debuginfod->queued == DEBUGINFOD_QUEUE_MAX;
	for (uint32_t i = 0; !asked && i < debuginfod->queued; i++)
		asked = strcmp(debuginfod->queue[i], build_id) == 0;
	if (!asked) {
		snprintf(debuginfod->queue[debuginfod->queued++], ID_TEXT_BYTES, "%s", build_id);
		pthread_cond_signal(&debuginfod->wake);
	}
	pthread_mutex_unlock(&debuginfod->lock);
}

int debuginfod_find(struct debuginfod *debuginfod, const char *build_id)
{
	int fd = debug_cache_find(&debuginfod->cache, build_id);

	if (fd >= 0 || fd == -EINVAL)
		return fd < 0 ? -ENOENT : fd;
	if (fd == -ENODATA)
		return -ENOENT;
	ask(debuginfod, build_id);
	return -EAGAIN;
}

uint64_t debuginfod_answers(const struct debuginfod *debuginfod)
{
	return atomic_load(&debuginfod->answers);
}
