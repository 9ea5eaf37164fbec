// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "proto/rpc_call.h"

// Memory that is taken for something else, as answers, is given back without a word.
#define POLL_NS (100 * NS_PER_MS)

void rpc_queue_init(struct rpc_queue *queue, struct byte_budget *budget)
{
	*queue = (struct rpc_queue){ .budget = budget };
	queue->last = &queue->first;
	pthread_mutex_init(&queue->mutex, NULL);
	pthread_cond_init(&queue->changed, NULL);
}

void rpc_queue_deinit(struct rpc_queue *queue)
{
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->mutex);
}

static struct rpc_peer **bucket_of(struct rpc_queue *queue, const char *name)
{
	uint32_t hash = 2166136261;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619;
	return &queue->buckets[hash % RPC_PEER_BUCKETS];
}

struct rpc_peer *rpc_queue_find_peer(struct rpc_queue *queue, const char *name)
{
	struct rpc_peer **bucket = bucket_of(queue, name);

	for (struct rpc_peer *peer = *bucket; peer; peer = peer->next_in_bucket)
		if (!strcmp(peer->name, name))
			return peer;

	struct rpc_peer *peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	snprintf(peer->name, sizeof(peer->name), "%s", name);
	peer->last = &peer->first;
	peer->next_in_bucket = *bucket;
	*bucket = peer;
	return peer;
}

void rpc_queue_release_peer(struct rpc_queue *queue, struct rpc_peer *peer)
{
	struct rpc_peer **at = bucket_of(queue, peer->name);

	if (peer->connection_count || peer->call_count)
		return;
	while (*at != peer)
		at = &(*at)->next_in_bucket;
	*at = peer->next_in_bucket;
	free(peer);
}

static void append_peer(struct rpc_queue *queue, struct rpc_peer *peer)
{
	peer->next_in_turn = NULL;
	*queue->last = peer;
	queue->last = &peer->next_in_turn;
}

static void remove_peer(struct rpc_queue *queue, struct rpc_peer **at)
{
	struct rpc_peer *peer = *at;

	*at = peer->next_in_turn;
	if (queue->last == &peer->next_in_turn)
		queue->last = at;
}

bool rpc_queue_push(struct rpc_queue *queue, struct rpc_call *call, uint32_t queued_max)
{
	struct rpc_peer *peer = call->peer;

	pthread_mutex_lock(&queue->mutex);
	bool fits = peer->queued_count < queued_max && !queue->closing;
	if (fits) {
		call->state = RPC_CALL_QUEUED;
		call->next = NULL;
		*peer->last = call;
		peer->last = &call->next;
		if (!peer->queued_count++)
			append_peer(queue, peer);
		pthread_cond_signal(&queue->changed);
	}
	pthread_mutex_unlock(&queue->mutex);
	return fits;
}

// The peer's oldest call, if there is memory for it. The peer goes to the end of the line.
static struct rpc_call *take_call(struct rpc_queue *queue, struct rpc_peer **at)
{
	struct rpc_peer *peer = *at;
	struct rpc_call *call = peer->first;
	size_t work = rpc_call_work(call);

	if (!byte_budget_take(queue->budget, work))
		return NULL;
	call->work_bytes = work;
	call->state = RPC_CALL_HANDLED;
	peer->first = call->next;
	if (!peer->first)
		peer->last = &peer->first;
	remove_peer(queue, at);
	if (--peer->queued_count)
		append_peer(queue, peer);
	return call;
}

struct rpc_call *rpc_queue_pop(struct rpc_queue *queue)
{
	struct rpc_call *call = NULL;

	pthread_mutex_lock(&queue->mutex);
	for (;;) {
		for (struct rpc_peer **at = &queue->first; *at && !call;) {
			call = take_call(queue, at);
			if (!call)
				at = &(*at)->next_in_turn;
		}
		if (call || (queue->closing && !queue->first))
			break;
		if (!queue->first) {
			pthread_cond_wait(&queue->changed, &queue->mutex);
			continue;
		}
		uint64_t until_ns = clock_monotonic_ns() + POLL_NS;
		const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
						.tv_nsec = until_ns % NS_PER_SECOND };
		pthread_cond_clockwait(&queue->changed, &queue->mutex, CLOCK_MONOTONIC, &until);
	}
	pthread_mutex_unlock(&queue->mutex);
	return call;
}

static void remove_call(struct rpc_queue *queue, struct rpc_call *call)
{
	struct rpc_peer *peer = call->peer;
	struct rpc_call **at = &peer->first;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	if (peer->last == &call->next)
		peer->last = at;
	if (--peer->queued_count)
		return;

	struct rpc_peer **turn = &queue->first;
	while (*turn != peer)
		turn = &(*turn)->next_in_turn;
	remove_peer(queue, turn);
}

bool rpc_queue_remove(struct rpc_queue *queue, struct rpc_call *call)
{
	pthread_mutex_lock(&queue->mutex);
	bool waits = call->state == RPC_CALL_QUEUED;
	if (waits)
		remove_call(queue, call);
	pthread_mutex_unlock(&queue->mutex);
	return waits;
}

void rpc_queue_wake(struct rpc_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	if (queue->first)
		pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->mutex);
}

void rpc_queue_close(struct rpc_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue->closing = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->mutex);
}
