// SPDX-License-Identifier: Apache-2.0
// Rows of one group of series in one or more minutes, as compressed columns.
//
// A position is a pair (series, slot) that has rows, or (series, slot, more_slots) in a chunk with
// intervals; positions are numbered in order. For each node the chunk stores the positions where it
// occurs, as distances from one to the next. Measured on 4,000 Zipf stacks per thread this takes 1.39
// B a row; columns in order of time take 1.6 B, columns by node within each series 1.5 B.
//
// A distance is stored as its width in bits, and the bits below the highest one. The bits are noise
// and stored raw. The widths compress well together with those of nodes of similar frequency, so each
// class of frequency has a column of its own. Values are in order of position, where equal ones
// follow each other, as indexes into a palette of the chunk's frequent values, or in full.
//
// A closed minute's chunk has rows of that minute. Merging (rocksdb_merge.c) makes chunks of fewer series and more
// minutes: a reader of few series unpacks less, and rows of a quiet host fill a chunk.
//
// Where nodes have many rows, a chunk has their sums, too: who wants all its rows as sums reads no row.
//
// A chunk holds as many series of a group (service, type, slot length) as fit CHUNK_ROWS_MAX. A chunk
// per series would have 10 to 100 rows on most hosts: too few to pay for its head and to compress.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rows.h"

enum {
	// Reading one series unpacks the whole chunk: twice as many rows save 2.5 % of space and double
	// the time of one host's heat map.
	CHUNK_ROWS_MAX = 32 << 10,
};

/** Memory and compression contexts, reused from chunk to chunk. One thread at a time. */
struct chunk_encoder;
struct chunk_encoder *chunk_encoder_new(void);
void chunk_encoder_freep(struct chunk_encoder **encoder);
/** Write sums into chunks from now on, where they pay: of store format 4. */
void chunk_encoder_write_sums(struct chunk_encoder *encoder);

/**
 * Append a chunk of @rows to @chunk. @rows are sorted by series; they are reordered, and equal
 * (series, slot, more_slots, node) are added up. @minutes: that the slots may lie in, from the first's; 0: one, in
 * the layout of store format 2. @ret_count: the rows left. Returns 0; -ENOMEM; -E2BIG above
 * CHUNK_ROWS_LIMIT.
 */
int chunk_encode(struct chunk_encoder *encoder, struct row *rows, uint32_t count, uint64_t slot_ns,
		 uint32_t minutes, struct buffer *chunk, uint32_t *ret_count);

/** What a chunk's head says, without unpacking it. */
struct chunk_head {
	uint64_t slot_ns;
	uint32_t row_count;
};

/** Read @chunk's head. -EBADMSG if it is damaged. */
int chunk_read_head(struct bytes chunk, struct chunk_head *ret_head);

struct chunk_decoder;
struct chunk_decoder *chunk_decoder_new(void);
void chunk_decoder_freep(struct chunk_decoder **decoder);

/**
 * Read the rows of @chunk that @query wants. Returns 0; -EBADMSG if the chunk is damaged; -ENOMEM; or
 * what the receiver returned.
 */
int chunk_decode(struct chunk_decoder *decoder, struct bytes chunk, const struct row_query *query);

// The same in two steps: the second may be another thread's.

/**
 * Read what @chunk's head says, copy what is needed of the rest, and make room: the second step allocates nothing.
 * *ret_wanted: @query wants any of the chunk's series; else there is no second step. Returns as chunk_decode().
 */
int chunk_decode_begin(struct chunk_decoder *decoder, struct bytes chunk,
		       const struct row_query *query, bool *ret_wanted);
/**
 * Read the rows of the chunk that was begun. What the receiver is given, once for each series at most, stays until the
 * decoder's next chunk.
 */
int chunk_decode_end(struct chunk_decoder *decoder, const struct row_query *query);
