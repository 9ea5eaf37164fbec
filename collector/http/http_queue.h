// SPDX-License-Identifier: Apache-2.0
// Requests that wait for a worker, in turns between those who ask: who asks much waits for itself, not others for it.
// Thread-safe.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { HTTP_TURNS = 256 }; // of peers by hash: two that share one are one

/** Part of what waits. */
struct http_queued {
	const char *peer; // who asks; stays valid while it waits
	struct http_queued *next;
};

struct http_queue {
	pthread_mutex_t lock; // guards the fields below
	pthread_cond_t filled;
	struct http_queued *first, **last;
	uint32_t count, count_max, peer_max; // all that wait; the limits, of all and of each peer
	uint64_t turns[HTTP_TURNS];          // when the peer was served last
	uint64_t turn;
	bool closing;
};

void http_queue_init(struct http_queue *queue, uint32_t count_max, uint32_t peer_max);
void http_queue_deinit(struct http_queue *queue);

/** False: full, or the peer has as many waiting as it may. */
bool http_queue_push(struct http_queue *queue, struct http_queued *queued);

/**
 * Waits for one. The oldest of the peer that was served longest ago. NULL: the queue is closed and empty. *ret_closing:
 * it is closed.
 */
struct http_queued *http_queue_pop(struct http_queue *queue, bool *ret_closing);

/** Nothing is pushed any more, and nobody waits. */
void http_queue_close(struct http_queue *queue);
