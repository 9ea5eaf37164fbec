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

/** One bit per 64th of the partition that [from, to) overlaps. */
uint64_t partition_presence(const struct partition *partition, uint64_t from_ns, uint64_t to_ns);

// For queries, without the lock. What takes time happens outside of it: appends never wait.

/** A view of the postings as they are now. -ENOENT: the partition was dropped; or as below. */
int partition_read_postings(struct partition *partition, struct db *db,
			    struct postings_view *ret_view, struct error *err);
/** A reference to a view of the forest as it is now. Returns as above. */
int partition_read_forest(struct partition *partition, struct db *db, struct forest_view **ret_view,
			  struct error *err);

// With the lock held:

/** Record damage; the first one found is kept. */
void partition_note_damage(struct partition *partition, const char *text);

/** Load the dictionary unless it is loaded. Returns 0, -EBADMSG (recorded), -EIO or -ENOMEM. */
int partition_load_forest(struct partition *partition, struct db *db, struct error *err);
int partition_load_postings(struct partition *partition, struct db *db, struct error *err);
/** Add the unsaved growth of the dictionaries and the summary to @batch. */
int partition_save(struct partition *partition, struct db_batch *batch, uint64_t sequence,
		   struct error *err);
/** The batch of partition_save() is on disk: everything up to these marks is saved. */
void partition_saved(struct partition *partition, const struct forest_mark *forest,
		     uint32_t series);

/** Load the tombstones. Returns 0; -ENOMEM; -EIO. One that is damaged makes the partition unreadable. */
int partition_load_tombstones(struct partition *partition, struct db *db, struct error *err);
/**
 * Put @tombstones, a reference, in force in place of those before: no series is present any more where
 * all of its rows are deleted. On failure they are in force, but presence is as it was.
 */
int partition_set_tombstones(struct partition *partition, struct db *db,
			     struct tombstone_list *tombstones, struct error *err);
/** Free the postings: they have changed on disk. No append has used them that is still in flight. */
void partition_drop_postings(struct partition *partition);
/** Add to @batch what makes the records of presence be without what @tombstones are about. */
int partition_clean_presence(struct partition *partition, struct db *db,
			     const struct tombstone_list *tombstones, struct db_batch *batch,
			     struct error *err);

/** Record the presence of @run's series. */
void partition_note_presence(struct partition *partition, const struct raw_run *run);

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

/** Append a record of the series that have rows in @minute. @series ascend. */
void presence_encode(uint32_t minute, const uint32_t *series, uint32_t count,
		     struct buffer *record);
