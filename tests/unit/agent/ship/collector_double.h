// SPDX-License-Identifier: Apache-2.0
// A collector for tests: answers over real gRPC, keeps what it stored, and misbehaves on request.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proto/export_message.h"
#include "proto/rpc.h"
#include "tests/test.h"

enum { DOUBLE_BATCHES_MAX = 4096, DOUBLE_STACKS_MAX = 4096 };

struct collector_double {
	struct rpc_server *server;
	int port;
	pthread_mutex_t mutex;
	uint64_t sequences[DOUBLE_BATCHES_MAX]; // stored, in order of arrival
	uint64_t boots[DOUBLE_BATCHES_MAX];     // of these: the id's low half
	uint32_t stored;
	uint64_t samples;
	int64_t value;
	struct id128 known[DOUBLE_STACKS_MAX];
	uint32_t known_count;
	struct batch_id last;

	atomic_uint calls;
	atomic_uint defined;   // definitions received
	atomic_uint fail_next; // calls to answer with fail_status
	enum rpc_status fail_status;
	int fail_code;                 // of the error; 0: -EIO
	uint32_t pause_ms;             // asked for with each failure; 0: none
	atomic_uint store_then_fail;   // calls to store but answer with UNAVAILABLE
	struct export_refused refused; // said of each batch
	atomic_bool ask_always;        // always claim not to know a stack
	atomic_uint rubbish;           // calls to answer with bytes that are no response
	atomic_uint delay_ms;
	atomic_bool hangs; // a call lasts until it does not
};

static inline bool double_knows(const struct collector_double *c, struct id128 id)
{
	for (uint32_t i = 0; i < c->known_count; i++)
		if (id128_equal(c->known[i], id))
			return true;
	return false;
}

static inline void double_learn(struct collector_double *c, const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->stack_count; i++) {
		if (!profile->stacks[i].defined)
			continue;
		c->defined++;
		if (!double_knows(c, profile->stacks[i].id) && c->known_count < DOUBLE_STACKS_MAX)
			c->known[c->known_count++] = profile->stacks[i].id;
	}
}

static inline bool double_has(const struct collector_double *c, const struct batch_id *batch)
{
	for (uint32_t i = 0; i < c->stored; i++)
		if (c->sequences[i] == batch->sequence && c->boots[i] == batch->boot.low)
			return true;
	return false;
}

// Returns whether all stacks are known; the others are put into @response.
static inline bool double_checks_stacks(struct collector_double *c, const struct profile *profile,
					struct export_response *response)
{
	response->unknown_stacks = calloc(profile->stack_count + 1, sizeof(struct id128));
	for (uint32_t i = 0; i < profile->stack_count; i++)
		if (c->ask_always || !double_knows(c, profile->stacks[i].id))
			response->unknown_stacks[response->unknown_stack_count++] =
				profile->stacks[i].id;
	return !response->unknown_stack_count;
}

static inline void double_store(struct collector_double *c, const struct batch_id *batch,
				const struct profile *profile, struct export_response *response)
{
	c->last = *batch;
	response->refused = c->refused;
	response->duplicate = double_has(c, batch);
	if (response->duplicate)
		return;
	double_learn(c, profile);
	if (!double_checks_stacks(c, profile, response))
		return;
	c->boots[c->stored] = batch->boot.low;
	c->sequences[c->stored++] = batch->sequence;
	c->samples += profile->sample_count;
	for (uint32_t i = 0; i < profile->sample_count; i++)
		c->value += profile->samples[i].value;
}

static inline bool take_one(atomic_uint *count)
{
	unsigned int before = *count;

	while (before && !atomic_compare_exchange_weak(count, &before, before - 1))
		;
	return before;
}

static enum rpc_status double_export(void *context, const struct rpc_request *request,
				     struct buffer *response, struct error *err)
{
	struct collector_double *c = context;
	_cleanup_(export_response_deinit) struct export_response answer = { 0 };
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct batch_id batch;

	c->calls++;
	if (c->delay_ms)
		usleep(c->delay_ms * 1000);
	while (c->hangs)
		usleep(1000);
	if (take_one(&c->fail_next)) {
		error_set(err, c->fail_code ? c->fail_code : -EIO, "made to fail");
		*request->ret_pause_ms = c->pause_ms;
		return c->fail_status;
	}
	if (take_one(&c->rubbish)) {
		buffer_append_string(response, "\xff\xff\xff");
		return RPC_OK;
	}
	if (export_request_decode(request->bytes, request->size, &batch, &profile, NULL, err))
		return RPC_INVALID_ARGUMENT;
	pthread_mutex_lock(&c->mutex);
	double_store(c, &batch, profile, &answer);
	pthread_mutex_unlock(&c->mutex);
	if (take_one(&c->store_then_fail)) {
		error_set(err, -EIO, "stored, but who knows");
		return RPC_UNAVAILABLE;
	}
	return export_response_encode(&answer, response, err) ? RPC_INTERNAL : RPC_OK;
}

/** Listen on @port, 0: any. What was stored stays over a restart. */
static inline void double_start(struct collector_double *c, int port)
{
	char address[32];
	const struct rpc_method method = { .name = "/cairn.v1.Collector/Export",
					   .handle = double_export,
					   .context = c,
					   .work_per_byte = 1 };
	const struct rpc_server_options options = { .address = address,
						    .message_bytes_max = EXPORT_MESSAGE_BYTES_MAX,
						    .threads = 2,
						    .methods = &method,
						    .method_count = 1 };
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	EXPECT_EQ(0, rpc_server_open(&options, &c->server, &c->port, &err), err.text);
}

static inline void double_stop(struct collector_double *c)
{
	rpc_server_close(take(c->server), 1000);
}
