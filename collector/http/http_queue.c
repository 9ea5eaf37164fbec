// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_queue.h"

#include <string.h>

#include "base/id128.h"

void http_queue_init(struct http_queue *queue, uint32_t count_max, uint32_t peer_max)
{
	*queue = (struct http_queue){ .count_max = count_max, .peer_max = peer_max };
	queue->last = &queue->first;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->filled, NULL);
}

void http_queue_deinit(struct http_queue *queue)
{
	pthread_cond_destroy(&queue->filled);
	pthread_mutex_destroy(&queue->lock);
}

/* Needs the lock. */
static uint32_t count_of(const struct http_queue *queue, const char *peer)
{
	uint32_t count = 0;

	for (const struct http_queued *at = queue->first; at; at = at->next)
		count += strcmp(at->peer, peer) == 0;
	return count;
}

bool http_queue_push(struct http_queue *queue, struct http_queued *queued)
{
	pthread_mutex_lock(&queue->lock);
	bool fits = !queue->closing && queue->count < queue->count_max &&
		    count_of(queue, queued->peer) < queue->peer_max;
	if (fits) {
		queued->next = NULL;
		*queue->last = queued;
		queue->last = &queued->next;
		queue->count++;
		pthread_cond_signal(&queue->filled);
	}
	pthread_mutex_unlock(&queue->lock);
	return fits;
}

static uint64_t *turn_of(struct http_queue *queue, const char *peer)
{
	return &queue->turns[hash64_of(peer, strlen(peer)) % HTTP_TURNS];
}

/* Needs the lock, and one that waits. */
static struct http_queued *take(struct http_queue *queue)
{
	struct http_queued **chosen = &queue->first;

	for (struct http_queued **at = &queue->first; *at; at = &(*at)->next)
		if (*turn_of(queue, (*at)->peer) < *turn_of(queue, (*chosen)->peer))
			chosen = at;
	struct http_queued *queued = *chosen;
	*chosen = queued->next;
	if (queue->last == &queued->next)
		queue->last = chosen;
	queue->count--;
	*turn_of(queue, queued->peer) = ++queue->turn;
	return queued;
}

struct http_queued *http_queue_pop(struct http_queue *queue, bool *ret_closing)
{
	pthread_mutex_lock(&queue->lock);
	while (!queue->first && !queue->closing)
		pthread_cond_wait(&queue->filled, &queue->lock);
	struct http_queued *queued = queue->first ? take(queue) : NULL;
	*ret_closing = queue->closing;
	pthread_mutex_unlock(&queue->lock);
	return queued;
}

void http_queue_close(struct http_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->closing = true;
	pthread_cond_broadcast(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}
