// SPDX-License-Identifier: Apache-2.0
// Writes a minute's chunks and rollups, group by group: when a minute is closed, and when rows of it are
// deleted.
#pragma once

#include "collector/store/rocksdb/chunk.h"
#include "collector/store/rocksdb/key.h"

/** A group's rollups: sums per slot and per node. */
struct group_sums {
	struct row *totals; // by slot, node 0
	struct row *sums;   // by node, slot 0
	uint32_t *sum_of;   // by node: position in sums + 1
	uint32_t sum_of_count;
	uint32_t sum_count, sum_capacity;
	bool *has_slot;
	struct slot_step *steps; // the intervals' part of totals; NULL: no interval yet
	bool has_steps;
	uint32_t first_slot, end_slot; // with rows: [first, end)
	uint64_t row_count;
};

struct chunk_writer {
	struct chunk_encoder *encoder; // borrowed
	struct db_batch *batch;        // borrowed
	uint64_t partition_ns;         // where the partition begins
	uint32_t minute;
	uint32_t minutes;                 // as of chunk_encode()
	uint64_t sequence;                // of the chunks
	uint64_t chunk_bytes, chunk_rows; // written
	struct group_sums sums;           // of the group so far
};

/** Set up a writer that has its encoder, batch, partition, minute and sequence. Returns 0 or -ENOMEM. */
int chunk_writer_init(struct chunk_writer *writer);
void chunk_writer_deinit(struct chunk_writer *writer);

/**
 * Write @rows of @group, sorted by series, as a chunk; @last_series is none of theirs, or their highest.
 * The rows are reordered and joined. Returns 0; -ENOMEM; -E2BIG above CHUNK_ROWS_LIMIT.
 */
int chunk_writer_put(struct chunk_writer *writer, uint32_t group, uint32_t last_series,
		     struct row *rows, uint32_t count, uint64_t slot_ns);
/** Count rows of a chunk that stays as it is in the group's rollups. */
int chunk_writer_count(struct chunk_writer *writer, const struct row *rows, uint32_t count);
/** The group is complete: write its rollups where they pay. */
int chunk_writer_end_group(struct chunk_writer *writer, uint32_t group, uint64_t slot_ns);
/** The group is complete, and its rollups stay as they are. */
void chunk_writer_drop_group(struct chunk_writer *writer);
