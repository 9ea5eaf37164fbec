// SPDX-License-Identifier: Apache-2.0
// Calls whose message has arrived, in turns between their peers: one that sends much waits for itself, not
// the others. Only proto/rpc_*.c include this.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"
#include "base/byte_budget.h"

struct rpc_call;

enum { RPC_PEER_BUCKETS = 1024 };

/** An address with connections. */
struct rpc_peer {
	char name[ADDRESS_PEER_BYTES];
	struct rpc_peer *next_in_bucket;
	uint32_t connection_count;
	uint32_t call_count; // of all states: a peer with one is kept
	size_t bytes;        // of messages that arrive or wait

	// Under the queue's mutex.
	struct rpc_call *first, **last;
	uint32_t queued_count;
	struct rpc_peer *next_in_turn; // of those with queued calls
};

struct rpc_queue {
	struct rpc_peer *buckets[RPC_PEER_BUCKETS]; // of the loop's thread
	struct byte_budget *budget;

	pthread_mutex_t mutex; // guards the fields below
	pthread_cond_t changed;
	struct rpc_peer *first, **last; // whose turn is next
	bool closing;
};

void rpc_queue_init(struct rpc_queue *queue, struct byte_budget *budget);
void rpc_queue_deinit(struct rpc_queue *queue);

/** The peer of that name, made if needed; NULL when out of memory. Of the loop's thread. */
struct rpc_peer *rpc_queue_find_peer(struct rpc_queue *queue, const char *name);
/** Free the peer if it has neither connections nor calls. Of the loop's thread. */
void rpc_queue_release_peer(struct rpc_queue *queue, struct rpc_peer *peer);

/** False: @queued_max calls of the peer wait already. */
bool rpc_queue_push(struct rpc_queue *queue, struct rpc_call *call, uint32_t queued_max);
/**
 * The next call for which there is memory, which is taken for it; waits for one. NULL: the queue is closed
 * and empty.
 */
struct rpc_call *rpc_queue_pop(struct rpc_queue *queue);
/** Take a call out. False: a thread has it. */
bool rpc_queue_remove(struct rpc_queue *queue, struct rpc_call *call);
/** Memory was given back: calls that waited for it may fit. */
void rpc_queue_wake(struct rpc_queue *queue);
/** Let rpc_queue_pop() return NULL once the queue is empty. */
void rpc_queue_close(struct rpc_queue *queue);
