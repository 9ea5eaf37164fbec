// SPDX-License-Identifier: Apache-2.0
// Threads that decode chunks for all queries of a store, beside the queries' own threads.
//
// A query's thread finds the chunks. Once it has read some alone, it hands over others while a helper is free, and goes on decoding
// itself. It makes the room that a helper decodes into, and passes on the rows: so helpers allocate nothing, what they use is
// in the query's memory account, they take no lock of the store, and a receiver is called on one thread. Chunks come in any order.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/rocksdb/chunk.h"

enum {
	CHUNK_HELPERS_MAX =
		7, // a query's own thread passes on the rows: it would not keep up with more
	CHUNKS_SHARED_MAX = 8,          // of a query at a time, each with a decoder of about 2 MiB
	ALONE_ROWS_DEFAULT = 128 << 10, // about a millisecond: to wake a thread takes a tenth of it
};

struct chunk_helpers;

/** Start @count threads; 0: as many as there are other CPUs. Fewer start if the system refuses more. NULL when out of memory. */
struct chunk_helpers *chunk_helpers_new(uint32_t count);
/** No query is running. NULL is allowed. */
void chunk_helpers_free(struct chunk_helpers *helpers);

enum shared_state { SHARED_FREE, SHARED_QUEUED, SHARED_DECODING, SHARED_DECODED };

/** A chunk that was handed over. */
struct shared_chunk {
	enum shared_state state;   // under the helpers' lock
	struct shared_chunk *next; // in their queue
	struct chunk_sharing *sharing;
	struct chunk_decoder *decoder; // NULL: not needed yet
	struct row_query query;        // its receiver keeps what is found
	int (*receiver)(void *context,
			const struct store_rows *rows); // of the query that was asked
	void *receiver_context;
	struct slot_range *parts; // the query's
	uint32_t part_capacity;
	struct store_rows *found;
	uint32_t found_count, found_capacity;
	int rc;
};

/** What one query shares. Its functions are the query's thread's. */
struct chunk_sharing {
	struct chunk_helpers *helpers;
	uint32_t alone_rows; // that the query reads before it shares
	uint64_t rows;       // that it has read alone
	uint32_t given;      // chunks that are not free
	atomic_uint decoded; // of them
	pthread_cond_t has_decoded;
	struct shared_chunk chunks[CHUNKS_SHARED_MAX];
};

/** @helpers may be NULL: nothing is shared. */
void chunk_sharing_init(struct chunk_sharing *sharing, struct chunk_helpers *helpers,
			uint32_t alone_rows);
/** No chunk is left with helpers. */
void chunk_sharing_deinit(struct chunk_sharing *sharing);

/**
 * Hand over @chunk, which has @row_count rows. *ret_given: false if the caller had better decode it. What @query points to stays
 * until the chunk is taken, but for its parts. Returns as chunk_decode().
 */
int chunk_sharing_give(struct chunk_sharing *sharing, struct bytes chunk, uint32_t row_count,
		       const struct row_query *query, bool *ret_given);

/**
 * Take a chunk that is decoded, and pass its rows to its query's receiver; with @wait, decode what no helper has begun, and wait
 * for what one has. *ret_rc: as chunk_decode() of it. False: there is none.
 */
bool chunk_sharing_take(struct chunk_sharing *sharing, bool wait, int *ret_rc);

/** Forget all chunks that were handed over; waits for those that are being decoded. */
void chunk_sharing_cancel(struct chunk_sharing *sharing);
