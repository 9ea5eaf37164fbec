// SPDX-License-Identifier: Apache-2.0
// One partition of time: its dictionaries, loaded when they are asked for, and its open windows.
//
// Partitions are ranges of keys, not column families: a family costs a write buffer and files of
// its own even when idle, and a month has 700 hours. As all keys begin with the partition, dropping
// one is one range deletion, and its files go at once because files hold neighbours in time.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/rocksdb/forest.h"
#include "collector/store/rocksdb/forest_view.h"
#include "collector/store/rocksdb/head.h"
#include "collector/store/rocksdb/postings.h"
#include "collector/store/rocksdb/rocksdb_db.h"

/** What the database says of a partition without loading it. Written with every commit. */
struct partition_summary {
	uint64_t nodes, series;
	uint64_t oldest_ns, newest_ns; // of its rows; 0: none
};

struct partition {
	uint64_t start_ns;
	uint64_t length_ns;
	atomic_uint refs;
	atomic_uint pins; // appends under way: their additions are in memory only

	pthread_mutex_t lock; // guards what follows
	bool dropped;         // retention has deleted it
	struct partition_summary summary;
	struct forest *forest;     // for appending; NULL: not loaded
	struct forest_view *view;  // for queries; NULL: none made yet
	struct postings *postings; // NULL: not loaded
	struct forest_mark forest_saved;
	uint32_t series_saved;
	struct head head;
	uint64_t used_ns; // monotonic, for eviction
};

/** With one reference, the caller's. NULL when out of memory. */
struct partition *partition_new(uint64_t start_ns, uint64_t length_ns);
struct partition *partition_ref(struct partition *partition);
void partition_unref(struct partition *partition);
void partition_unrefp(struct partition **partition);

static inline uint64_t partition_end_ns(const struct partition *partition)
{
	return partition->start_ns + partition->length_ns;
}

/** The 64ths of the partition that [from, to) overlaps, as bits. 0: none. */
uint64_t partition_presence(const struct partition *partition, uint64_t from_ns, uint64_t to_ns);

// With the lock held:

/** Load what is not loaded yet. Returns 0, -EBADMSG, -EIO or -ENOMEM. */
int partition_load_forest(struct partition *partition, struct db *db, struct error *err);
int partition_load_postings(struct partition *partition, struct db *db, struct error *err);
/** A reference to the forest as it is now. */
int partition_view(struct partition *partition, struct db *db, struct forest_view **ret_view,
		   struct error *err);

/** Put into @batch what memory has and the database has not, and the summary. */
int partition_save(struct partition *partition, struct db_batch *batch, uint64_t sequence,
		   struct error *err);
/** The batch of partition_save() was written, or not. */
void partition_saved(struct partition *partition, const struct forest_mark *forest,
		     uint32_t series);

/** Mark the series of @run as present in its window. */
void partition_note_presence(struct partition *partition, const struct raw_run *run);

uint64_t partition_memory(const struct partition *partition);
/** Free the dictionaries if nothing needs them now. */
void partition_evict(struct partition *partition);

void partition_summary_encode(const struct partition_summary *summary, struct buffer *record);
int partition_summary_decode(struct bytes record, struct partition_summary *ret_summary);

/** Which series have rows in @window, as a record. @series are ascending. */
void presence_encode(uint32_t window, const uint32_t *series, uint32_t count,
		     struct buffer *record);
