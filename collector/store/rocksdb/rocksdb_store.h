// SPDX-License-Identifier: Apache-2.0
// The embedded store: what its files share.
//
//   rocksdb_store.c     open, close, statistics
//   rocksdb_append.c    a batch to runs of rows in dense ids
//   rocksdb_commit.c    waiting batches to one synced write
//   rocksdb_select.c    label matchers to series, names, values
//   rocksdb_scan.c      chunks and open windows to rows and activity
//   rocksdb_close.c     an open window to chunks
//   rocksdb_maintain.c  which windows are due, retention, memory
//
// Locks, in the order in which they may be taken: maintain, resolve, partition->lock (two only by
// who holds resolve), partitions_lock, commit_lock.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/agent_table.h"
#include "collector/store/rocksdb/chunk.h"
#include "collector/store/rocksdb/partition.h"
#include "collector/store/store_ops.h"

#define STORE_PARTITION_NS_DEFAULT (3600ULL * 1000000000ULL)
#define STORE_MEMORY_BYTES_DEFAULT (512ULL << 20)
#define STORE_FUTURE_NS_MAX        (3600ULL * 1000000000ULL) // clocks that far off are wrong

enum {
	// Batches cover seconds. One that spreads over more is a mistake or an attack, as each
	// partition costs a dictionary.
	BATCH_PARTITIONS_MAX = 8,
	PARTITIONS_MAX = 64 << 10, // seven years of hours
};

/** What a batch became in one window, to be committed. */
struct commit_part {
	struct partition *partition; // a reference and a pin
	struct raw_run *run;
	uint64_t oldest_ns, newest_ns;
};

/** A batch that waits for its commit; lives on the stack of who appends. */
struct commit {
	const struct store_batch_id *batch;
	struct commit_part *parts;
	uint32_t part_count;
	struct commit *next;
	bool done;
	bool duplicate;
	int rc;
	struct error err;
};

/** Totals since the store was opened. */
struct store_counters {
	atomic_ullong rows_appended, batches_appended, batches_duplicate;
	atomic_ullong rows_late, rows_future, rows_series, stacks_refused;
	atomic_ullong chunk_bytes, chunk_rows;
};

struct rocksdb_store {
	struct store base;
	struct db *db;
	uint64_t retention_ns, partition_ns, memory_bytes;
	struct store_counters counters;

	pthread_mutex_t partitions_lock;
	struct partition **partitions; // by start, each a reference
	uint32_t partition_count, partition_capacity;

	pthread_mutex_t resolve_lock; // one batch at a time turns names into dense ids

	pthread_mutex_t commit_lock;
	pthread_cond_t commit_done;
	bool commit_busy;       // somebody writes, or has the database for himself
	struct commit *waiting; // newest first
	struct agent_table agents;
	uint64_t sequence; // of the last commit

	pthread_mutex_t maintain_lock;
	struct chunk_encoder *encoder; // of who holds maintain_lock
};

static inline struct rocksdb_store *rocksdb_store_of(struct store *store)
{
	return (struct rocksdb_store *)store;
}

// rocksdb_store.c
/** A reference to the partition that begins at @start_ns, or NULL. */
struct partition *rocksdb_find_partition(struct rocksdb_store *store, uint64_t start_ns);
/**
 * As above, made if missing, with a pin: what is added to it stays in memory and it is not removed
 * as empty. NULL when out of memory or at PARTITIONS_MAX.
 */
struct partition *rocksdb_pin_partition(struct rocksdb_store *store, uint64_t start_ns);
/** Gives up the pin and the reference; NULL is allowed. */
void rocksdb_unpin_partition(struct partition *partition);
void rocksdb_remove_partition(struct rocksdb_store *store, struct partition *partition);
/** Remove it if nothing was ever stored in it and nothing is about to be. */
void rocksdb_remove_empty_partition(struct rocksdb_store *store, struct partition *partition);

/** References to the partitions that overlap a range, oldest first. */
struct partition_list {
	struct partition **partitions;
	uint32_t count;
};
int rocksdb_list_partitions(struct rocksdb_store *store, struct time_range range,
			    struct partition_list *ret_list);
void partition_list_deinit(struct partition_list *list);

// rocksdb_append.c
int rocksdb_append(struct store *store, const struct store_batch_id *batch,
		   const struct profile *profile, struct store_append_result *ret_result,
		   struct error *err);

// rocksdb_commit.c
/** Wait until @commit is on the disk, refused or a duplicate; returns its rc. */
int rocksdb_commit(struct rocksdb_store *store, struct commit *commit);
/** Keep commits out, so that the caller alone writes; and let them in again. */
void rocksdb_commit_stop(struct rocksdb_store *store);
void rocksdb_commit_resume(struct rocksdb_store *store);

// rocksdb_select.c
int rocksdb_select(struct store *store, const struct selector *selector, const char *type,
		   struct time_range range, struct store_selection **ret_selection,
		   struct error *err);
void rocksdb_selection_free(struct store_selection *selection);
int rocksdb_label_names(struct store *store, const struct selector *selector,
			struct time_range range, struct name_list *ret_list, struct error *err);
int rocksdb_label_values(struct store *store, const char *name, const struct selector *selector,
			 struct time_range range, struct name_list *ret_list, struct error *err);

/** The selected series of one partition. */
struct selected_partition {
	struct partition *partition; // a reference
	uint32_t *wanted;            // by series: its number in the selection, or SERIES_UNWANTED
	uint32_t wanted_count;
	struct selected_group *groups; // with selected series, by number
	uint32_t group_count;
};

struct selected_group {
	uint32_t group;
	uint32_t series_count; // of the whole group, when it was selected
	uint32_t selected_count;
	uint32_t *series; // those selected, ascending
};

struct rocksdb_selection {
	struct store_selection_private base;
	struct selected_partition *partitions; // oldest first
	uint32_t partition_count;
	char *strings; // of all labels
	struct label *pairs;
};

// rocksdb_scan.c
int rocksdb_scan(struct store *store, const struct store_selection *selection,
		 struct time_range range, const struct store_scanner *scanner, struct error *err);
int rocksdb_activity(struct store *store, const struct store_selection *selection,
		     struct time_range range, uint64_t slot_ns, const uint32_t *rows,
		     int64_t *counts, struct error *err);

// rocksdb_close.c
/**
 * Make chunks of what is in @window now; rows that come meanwhile stay open. maintain_lock is held.
 * Returns 0, also if there is nothing; -EBADMSG if the rows are damaged; -ENOMEM; -EIO; -ENOSPC.
 */
int rocksdb_close_window(struct rocksdb_store *store, struct partition *partition, uint32_t window,
			 struct error *err);

// rocksdb_maintain.c
int rocksdb_maintain(struct store *store, uint64_t now_ns, struct error *err);
int rocksdb_flush(struct store *store, struct error *err);
