// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/readiness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define INTERVAL_NS (NS_PER_SECOND)
// An outcome that is older is none: the thread hangs.
#define OUTCOME_NS (10 * NS_PER_SECOND)

struct readiness {
	struct rpc_server *server;
	struct metrics *metrics;
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; // guards the fields below
	pthread_cond_t changed;
	bool closing;
	bool is_ready;
	uint64_t checked_ns; // monotonic; 0: never
	char text[READINESS_TEXT_BYTES];
};

enum rpc_status readiness_health(void *context, const struct rpc_request *request,
				 struct buffer *response, struct error *err)
{
	static const uint8_t serving[] = { 1 << 3, 1 }; // HealthCheckResponse.status: SERVING

	(void)context, (void)request, (void)err;
	buffer_append(response, serving, sizeof(serving));
	return RPC_OK;
}

static void log_change(bool was_ready, bool is_ready, bool is_first, const char *text)
{
	if (!is_ready && (was_ready || is_first))
		log_error("collector: not ready: its own call over gRPC failed: %s; retrying every "
			  "second; agents spool their batches",
			  text);
	else if (is_ready && !was_ready && !is_first)
		log_info("collector: ready: its own call over gRPC is answered again");
}

static void probe(struct readiness *readiness)
{
	struct error err = { 0 };
	int rc = rpc_server_probe(readiness->server, HEALTH_METHOD, READINESS_PROBE_MS_MAX, &err);

	if (rc)
		metrics_add(readiness->metrics, METRIC_NOT_READY, 1);
	pthread_mutex_lock(&readiness->lock);
	bool was_ready = readiness->is_ready, is_first = !readiness->checked_ns;
	readiness->is_ready = !rc;
	readiness->checked_ns = clock_monotonic_ns();
	memcpy(readiness->text, err.text, sizeof(readiness->text));
	pthread_mutex_unlock(&readiness->lock);
	log_change(was_ready, !rc, is_first, err.text);
}

// Until the next probe. False: the end.
static bool wait_for_turn(struct readiness *readiness)
{
	uint64_t until_ns = clock_monotonic_ns() + INTERVAL_NS;
	const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
					.tv_nsec = until_ns % NS_PER_SECOND };
	int rc = 0;

	pthread_mutex_lock(&readiness->lock);
	while (!readiness->closing && !rc)
		rc = pthread_cond_clockwait(&readiness->changed, &readiness->lock, CLOCK_MONOTONIC,
					    &until);
	bool goes_on = !readiness->closing;
	pthread_mutex_unlock(&readiness->lock);
	return goes_on;
}

static void *check(void *argument)
{
	pthread_setname_np(pthread_self(), "readiness");
	while (wait_for_turn(argument))
		probe(argument);
	return NULL;
}

void readiness_stop(struct readiness *readiness)
{
	if (!readiness || !readiness->has_thread)
		return;

	pthread_mutex_lock(&readiness->lock);
	readiness->closing = true;
	pthread_cond_signal(&readiness->changed);
	pthread_mutex_unlock(&readiness->lock);
	pthread_join(readiness->thread, NULL);
	readiness->has_thread = false;
}

void readiness_free(struct readiness *readiness)
{
	if (!readiness)
		return;

	readiness_stop(readiness);
	pthread_cond_destroy(&readiness->changed);
	pthread_mutex_destroy(&readiness->lock);
	free(readiness);
}

struct readiness *readiness_open(struct rpc_server *server, struct metrics *metrics)
{
	struct readiness *readiness = calloc(1, sizeof(*readiness));

	if (!readiness)
		return NULL;
	readiness->server = server;
	readiness->metrics = metrics;
	pthread_mutex_init(&readiness->lock, NULL);
	pthread_cond_init(&readiness->changed, NULL);
	probe(readiness);
	readiness->has_thread = !pthread_create(&readiness->thread, NULL, check, readiness);
	if (!readiness->has_thread) {
		readiness_free(readiness);
		return NULL;
	}
	return readiness;
}

bool readiness_read(struct readiness *readiness, char ret_text[READINESS_TEXT_BYTES])
{
	pthread_mutex_lock(&readiness->lock);
	bool is_ready = readiness->is_ready;
	memcpy(ret_text, readiness->text, READINESS_TEXT_BYTES);
	if (ns_between(readiness->checked_ns, clock_monotonic_ns()) > OUTCOME_NS) {
		is_ready = false;
		snprintf(ret_text, READINESS_TEXT_BYTES, "its call to itself does not end");
	}
	pthread_mutex_unlock(&readiness->lock);
	return is_ready;
}
