// SPDX-License-Identifier: Apache-2.0
// Rows of one group of series in one window, as compressed columns.
//
// A series' rows are kept by node, not by time: the distinct nodes ascending (deltas), how many
// rows each has, and for each row the distance to the node's row before, counted in the slots in
// which the series has any rows. That is the cheapest way we measured to say which stack was seen
// when (1.3 B a row for 5,000 Zipf stacks, where time-ordered columns took 1.6 B), and sums per
// stack need no sorting. A distance is stored as its number of bits and the bits below the
// highest one: the bits are noise and stored as they are, the numbers of bits are compressed, in
// one column for each class of nodes of about equal frequency, because the frequency says what to
// expect. Values are stored in time order, where equal ones follow each other, as numbers in a
// palette of the chunk's frequent values; rare ones are written out.
//
// One chunk holds all series of a group (service, type) that fit CHUNK_ROWS_MAX: a chunk per
// series would hold 10 to 100 rows on most hosts and pay for headers and for compression that
// never warms up; a reader of one series skips the others at about 1 ns a row.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "collector/rocksdb_db.h"
#include "collector/rows.h"

enum {
	// Large enough for compression to have warmed up, small enough that reading one host's
	// series does not unpack much of the others.
	CHUNK_ROWS_MAX = 64 << 10,
	CHUNK_CLASSES = 17, // log2 of WINDOW_SLOTS_MAX, and one
};

/** Memory and contexts that are used again from chunk to chunk. One thread at a time. */
struct chunk_encoder;
struct chunk_encoder *chunk_encoder_new(void);
void chunk_encoder_freep(struct chunk_encoder **encoder);

/**
 * Append a chunk of @count rows to @chunk. Rows are sorted by series, within one in any order,
 * and are reordered; equal (series, slot, node) are added up. @ret_count: rows that are left.
 * Returns 0 or -ENOMEM.
 */
int chunk_encode(struct chunk_encoder *encoder, struct row *rows, uint32_t count, uint64_t slot_ns,
		 struct buffer *chunk, uint32_t *ret_count);

struct chunk_decoder;
struct chunk_decoder *chunk_decoder_new(void);
void chunk_decoder_freep(struct chunk_decoder **decoder);

/**
 * Read what @query wants of @chunk. Returns 0; -EBADMSG if the chunk is damaged; -ENOMEM; or what
 * the receiver returned.
 */
int chunk_decode(struct chunk_decoder *decoder, struct bytes chunk, const struct row_query *query);
