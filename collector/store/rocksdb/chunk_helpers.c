// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/chunk_helpers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cpu_limit.h"
#include "base/memory_account.h"
#include "collector/store/rocksdb/chunk_decoder.h"

enum {
	ALONE_CHUNKS =
		32, // of the rows that a query reads alone: smaller chunks are not worth a thread's attention
	ROW_BYTES = 64, // of a decoder, about
	LEFT_SHARE =
		16, // of what the query may allocate: a chunk that needs more is decoded in the room that is there
};

struct chunk_helpers {
	pthread_mutex_t lock; // guards the fields below, and the states of shared chunks
	pthread_cond_t has_work;
	struct shared_chunk *first, **last; // queued
	atomic_uint queued;
	uint32_t idle;
	bool is_closing;
	uint32_t count; // of threads; not under the lock
	pthread_t threads[CHUNK_HELPERS_MAX];
};

// ---- the threads ----------------------------------------------------------------------------------

static void put_last(struct chunk_helpers *helpers, struct shared_chunk *chunk)
{
	chunk->state = SHARED_QUEUED;
	chunk->next = NULL;
	*helpers->last = chunk;
	helpers->last = &chunk->next;
	helpers->queued++;
}

/** Take the first of @sharing's chunks (NULL: of all) out of the queue, to decode it. NULL: there is none. */
static struct shared_chunk *take_first(struct chunk_helpers *helpers,
				       const struct chunk_sharing *sharing)
{
	for (struct shared_chunk **at = &helpers->first; *at; at = &(*at)->next) {
		struct shared_chunk *chunk = *at;

		if (sharing && chunk->sharing != sharing)
			continue;
		*at = chunk->next;
		if (!*at)
			helpers->last = at;
		helpers->queued--;
		chunk->state = SHARED_DECODING;
		return chunk;
	}
	return NULL;
}

/** The lock is held, but for the decoding. */
static void decode(struct chunk_helpers *helpers, struct shared_chunk *chunk)
{
	pthread_mutex_unlock(&helpers->lock);
	chunk->rc = chunk_decode_end(chunk->decoder, &chunk->query);
	pthread_mutex_lock(&helpers->lock);
	chunk->state = SHARED_DECODED;
	chunk->sharing->decoded++;
	pthread_cond_signal(&chunk->sharing->has_decoded);
}

static void *help(void *context)
{
	struct chunk_helpers *helpers = context;

	pthread_setname_np(pthread_self(), "chunks");
	pthread_mutex_lock(&helpers->lock);
	while (!helpers->is_closing) {
		struct shared_chunk *chunk = take_first(helpers, NULL);

		if (chunk) {
			decode(helpers, chunk);
			continue;
		}
		helpers->idle++;
		pthread_cond_wait(&helpers->has_work, &helpers->lock);
		helpers->idle--;
	}
	pthread_mutex_unlock(&helpers->lock);
	return NULL;
}

struct chunk_helpers *chunk_helpers_new(uint32_t count)
{
	struct chunk_helpers *helpers = calloc(1, sizeof(*helpers));

	if (!helpers)
		return NULL;
	helpers->last = &helpers->first;
	pthread_mutex_init(&helpers->lock, NULL);
	pthread_cond_init(&helpers->has_work, NULL);
	if (!count)
		count = cpu_limit() - 1;
	if (count > CHUNK_HELPERS_MAX)
		count = CHUNK_HELPERS_MAX;
	while (helpers->count < count &&
	       !pthread_create(&helpers->threads[helpers->count], NULL, help, helpers))
		helpers->count++;
	return helpers;
}

void chunk_helpers_free(struct chunk_helpers *helpers)
{
	if (!helpers)
		return;
	pthread_mutex_lock(&helpers->lock);
	helpers->is_closing = true;
	pthread_cond_broadcast(&helpers->has_work);
	pthread_mutex_unlock(&helpers->lock);
	for (uint32_t i = 0; i < helpers->count; i++)
		pthread_join(helpers->threads[i], NULL);
	pthread_mutex_destroy(&helpers->lock);
	pthread_cond_destroy(&helpers->has_work);
	free(helpers);
}

// ---- a query's chunks -----------------------------------------------------------------------------

void chunk_sharing_init(struct chunk_sharing *sharing, struct chunk_helpers *helpers,
			uint32_t alone_rows)
{
	*sharing = (struct chunk_sharing){ .helpers = helpers, .alone_rows = alone_rows };
	pthread_cond_init(&sharing->has_decoded, NULL);
}

/** One that is in @state; NULL: there is none. The helpers' lock is held. */
static struct shared_chunk *find_in_state(struct chunk_sharing *sharing, enum shared_state state)
{
	for (uint32_t i = 0; i < CHUNKS_SHARED_MAX; i++)
		if (sharing->chunks[i].state == state)
			return &sharing->chunks[i];
	return NULL;
}

void chunk_sharing_deinit(struct chunk_sharing *sharing)
{
	assert(!sharing->given);
	for (uint32_t i = 0; i < CHUNKS_SHARED_MAX; i++) {
		chunk_decoder_freep(&sharing->chunks[i].decoder);
		free(sharing->chunks[i].parts);
		free(sharing->chunks[i].found);
	}
	pthread_cond_destroy(&sharing->has_decoded);
}

/** There is one, and only this thread may take it. */
static struct shared_chunk *find_free(struct chunk_sharing *sharing)
{
	pthread_mutex_lock(&sharing->helpers->lock);
	struct shared_chunk *chunk = find_in_state(sharing, SHARED_FREE);
	pthread_mutex_unlock(&sharing->helpers->lock);
	return chunk;
}

/** A helper's receiver: keep what was found until the query's thread takes it. There is room. */
static int keep_rows(void *context, const struct store_rows *rows)
{
	struct shared_chunk *chunk = context;

	chunk->found[chunk->found_count++] = *rows;
	return 0;
}

/** Copy @query, and make room for what it finds. */
static int set_query(struct shared_chunk *chunk, const struct row_query *query)
{
	uint32_t found_max = query->detail == SCAN_SUMS ? 1 : chunk->decoder->series_count;
	int rc = array_reserve(&chunk->parts, sizeof(*chunk->parts), &chunk->part_capacity, 0,
			       query->part_count, UINT32_MAX / 2);

	if (rc == 0)
		rc = array_reserve(&chunk->found, sizeof(*chunk->found), &chunk->found_capacity, 0,
				   found_max, UINT32_MAX / 2);
	if (rc < 0)
		return -ENOMEM;
	if (query->part_count)
		memcpy(chunk->parts, query->parts, query->part_count * sizeof(*chunk->parts));
	chunk->receiver = query->rows;
	chunk->receiver_context = query->context;
	chunk->found_count = 0;
	chunk->query = *query;
	chunk->query.parts = chunk->parts;
	chunk->query.rows = keep_rows;
	chunk->query.context = chunk;
	return 0;
}

/** Is it worth it, is a helper free, and is there memory? */
static bool may_give(struct chunk_sharing *sharing, uint32_t row_count)
{
	const struct chunk_helpers *helpers = sharing->helpers;

	if (!helpers || sharing->rows < sharing->alone_rows) {
		sharing->rows += row_count;
		return false;
	}
	return row_count >= sharing->alone_rows / ALONE_CHUNKS &&
	       sharing->given < CHUNKS_SHARED_MAX && helpers->queued < helpers->count &&
	       (uint64_t)row_count * ROW_BYTES <= memory_account_left() / LEFT_SHARE;
}

int chunk_sharing_give(struct chunk_sharing *sharing, struct bytes chunk, uint32_t row_count,
		       const struct row_query *query, bool *ret_given)
{
	struct chunk_helpers *helpers = sharing->helpers;
	bool is_wanted = false;

	*ret_given = may_give(sharing, row_count);
	if (!*ret_given)
		return 0;
	struct shared_chunk *shared = find_free(sharing);
	if (!shared->decoder && !(shared->decoder = chunk_decoder_new()))
		return -ENOMEM;
	int rc = chunk_decode_begin(shared->decoder, chunk, query, &is_wanted);
	if (rc == 0 && is_wanted)
		rc = set_query(shared, query);
	if (rc < 0 || !is_wanted)
		return rc;
	shared->sharing = sharing;
	sharing->given++;
	pthread_mutex_lock(&helpers->lock);
	put_last(helpers, shared);
	if (helpers->idle)
		pthread_cond_signal(&helpers->has_work);
	pthread_mutex_unlock(&helpers->lock);
	return 0;
}

/** Find one that is decoded; with @wait, see that there is one. */
static struct shared_chunk *find_decoded(struct chunk_sharing *sharing, bool wait)
{
	struct chunk_helpers *helpers = sharing->helpers;
	struct shared_chunk *found;

	pthread_mutex_lock(&helpers->lock);
	while (!(found = find_in_state(sharing, SHARED_DECODED)) && wait) {
		struct shared_chunk *chunk = take_first(helpers, sharing);

		if (chunk)
			decode(helpers, chunk);
		else
			pthread_cond_wait(&sharing->has_decoded, &helpers->lock);
	}
	if (found) {
		found->state = SHARED_FREE;
		sharing->decoded--;
	}
	pthread_mutex_unlock(&helpers->lock);
	return found;
}

bool chunk_sharing_take(struct chunk_sharing *sharing, bool wait, int *ret_rc)
{
	if (!sharing->given || (!wait && !sharing->decoded))
		return false;
	struct shared_chunk *chunk = find_decoded(sharing, wait);
	int rc = 0;

	sharing->given--;
	for (uint32_t i = 0; i < chunk->found_count && rc == 0; i++)
		rc = chunk->receiver(chunk->receiver_context, &chunk->found[i]);
	*ret_rc = rc ? rc : chunk->rc;
	return true;
}

void chunk_sharing_cancel(struct chunk_sharing *sharing)
{
	struct chunk_helpers *helpers = sharing->helpers;

	if (!sharing->given)
		return;
	pthread_mutex_lock(&helpers->lock);
	for (struct shared_chunk * chunk; (chunk = take_first(helpers, sharing));)
		chunk->state = SHARED_FREE;
	while (find_in_state(sharing, SHARED_DECODING))
		pthread_cond_wait(&sharing->has_decoded, &helpers->lock);
	for (uint32_t i = 0; i < CHUNKS_SHARED_MAX; i++)
		sharing->chunks[i].state = SHARED_FREE;
	sharing->decoded = 0;
	pthread_mutex_unlock(&helpers->lock);
	sharing->given = 0;
}
