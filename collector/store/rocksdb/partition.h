// SPDX-License-Identifier: Apache-2.0
// One partition of time: its dictionaries (forest and postings), loaded on demand, and its open
// minutes.
//
// A partition is a range of keys, not a column family: a family costs a write buffer and files even
// when idle, and a month has 700 hours. Dropping a partition is one range deletion; its files go at
// once because a file holds neighbours in time.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/rocksdb/forest.h"
#include "collector/store/rocksdb/forest_view.h"
#include "collector/store/rocksdb/head.h"
#include "collector/store/rocksdb/postings.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rocksdb/tombstone.h"

/** A partition's record that is read without its dictionaries. Written with every commit. */
struct partition_summary {
	uint64_t nodes, series;
	uint64_t oldest_ns, newest_ns; // Unix time of its rows; 0: none
};

enum { PARTITION_DAMAGE_BYTES = 160 };

/** What statistics read without the lock. */
struct partition_figures {
	_Atomic uint64_t nodes, series, oldest_ns, newest_ns, memory_bytes;
	_Atomic uint64_t tombstones, tombstone_series;
	_Atomic uint64_t resolution_ns; // the longest slots that age has given to rows; 0: none
	atomic_bool damaged, merged;    // merged: all closed minutes are
};

struct partition {
	uint64_t start_ns;
	uint64_t length_ns;
	atomic_uint refs;
	atomic_uint pins; // appends in flight: their additions are in memory only
	struct partition_figures figures;
	pthread_mutex_t read_lock; // held while a query loads dictionaries; never by an append

	pthread_mutex_t lock; // guards the fields below
	bool dropped;         // deleted by retention
	struct partition_summary summary;
	struct forest *forest;     // for appending; NULL: not loaded
	struct forest_view *view;  // for queries; NULL: none
	struct postings *postings; // NULL: not loaded
	uint64_t generation;       // changes when dictionaries are loaded or evicted
	struct forest_mark forest_saved;
	uint32_t series_saved;
	struct head head;
	struct tombstone_list *tombstones; // NULL: none
	bool keeps_chunks;                 // some are damaged: they are not merged
	bool merge_begun;                  // to longer slots, and not finished
	bool ids_dropped;                  // those of stacks, since the store was opened
	uint64_t merge_after_ns;           // monotonic: late rows are collected until then
	bool keeps_tombstones; // what they are about is damaged, and cannot be rewritten
	uint64_t used_ns;      // monotonic, for eviction
	// What is wrong with what is on disk; "": nothing known. Queries read what they can.
	char damage[PARTITION_DAMAGE_BYTES];
	bool damage_logged;
	bool unreadable;    // the dictionary is damaged: nothing can be read or added
	bool stops_batches; // and batches need it
};

/** A partition with one reference, the caller's. NULL when out of memory. */
struct partition *partition_new(uint64_t start_ns, uint64_t length_ns);
struct partition *partition_ref(struct partition *partition);
void partition_unref(struct partition *partition);

static inline uint64_t partition_end_ns(const struct partition *partition)
{
	return partition->start_ns + partition->length_ns;
}

// With the lock held:

/** Record damage; the first one found is kept. */
void partition_note_damage(struct partition *partition, const char *text);

/** Add the unsaved growth of the dictionaries and the summary to @batch. */
int partition_save(struct partition *partition, struct db_batch *batch, uint64_t sequence,
		   struct error *err);
/** The batch of partition_save() is on disk: everything up to these marks is saved. */
void partition_saved(struct partition *partition, const struct forest_mark *forest,
		     uint32_t series);

/** Free the postings: they have changed on disk. No append has used them that is still in flight. */
void partition_drop_postings(struct partition *partition);

uint64_t partition_memory(const struct partition *partition);
/** Publish the figures for statistics. */
void partition_publish(struct partition *partition);
/** Free the dictionaries unless an append is in flight. */
void partition_evict(struct partition *partition);

/** Note how far the partition is merged, as @record says. -EBADMSG if it is damaged. */
int partition_decode_merge(struct partition *partition, struct bytes record);
/** The record of slots of @resolution_ns at most, and of the merge that is complete; @sequence 0: it has begun. */
void partition_encode_merge(uint64_t resolution_ns, uint64_t sequence, struct buffer *record);

int partition_summary_decode(struct bytes record, struct partition_summary *ret_summary);
