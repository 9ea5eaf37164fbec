// SPDX-License-Identifier: Apache-2.0
// Rows of one group of series in one window, as compressed columns.
//
// A chunk's positions are the pairs of series and slot that have rows, in order; where rows are
// intervals, those of each length have a position of their own. For each node it
// says at which positions the node was seen, as distances from one to the next: the cheapest way we
// measured to say which stack was seen when (1.39 B a row for 4,000 Zipf stacks per thread, where
// time-ordered columns took 1.6 B and the same by node within each series 1.5 B). A distance is
// stored as its number of bits and the bits below the highest one: the bits are noise and stored as
// they are, the numbers of bits are compressed, in one column for each class of nodes of about equal
// frequency, because the frequency says what to expect. Values are stored by position, where equal
// ones follow each other, as numbers in a palette of the chunk's frequent values; rare ones are
// written out.
//
// One chunk holds all series of a group (service, type) that fit CHUNK_ROWS_MAX: a chunk per
// series would hold 10 to 100 rows on most hosts and pay for headers, for nodes that its neighbours
// have too, and for compression that never warms up.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rows.h"

enum {
	// All of a chunk is unpacked for one series: twice as many rows take 2.5 % less space and
	// make one host's heat map take twice as long.
	CHUNK_ROWS_MAX = 32 << 10,
};

/** Memory and contexts that are used again from chunk to chunk. One thread at a time. */
struct chunk_encoder;
struct chunk_encoder *chunk_encoder_new(void);
void chunk_encoder_freep(struct chunk_encoder **encoder);

/**
 * Append a chunk of @count rows to @chunk. Rows are sorted by series, within one in any order,
 * and are reordered; equal (series, slot, more_slots, node) are added up. @ret_count: rows that are left.
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
