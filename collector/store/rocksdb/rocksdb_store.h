// SPDX-License-Identifier: Apache-2.0
// What the store's files share.
//
//   rocksdb_keeper.c    the store that others see: keeps one of these open, whatever its disk does
//   rocksdb_store.c     opens, closes, reads statistics
//   rocksdb_append.c    turns a batch into runs of rows
//   rocksdb_commit.c    writes and syncs the runs of waiting batches together
//   rocksdb_select.c    selects series; lists label names and values
//   rocksdb_scan.c      reads rows and activity from chunks and open minutes
//   rocksdb_clock.c     judges the clock; keeps the highest trusted time on disk
//   rocksdb_close.c     turns an open minute's runs into chunks
//   rocksdb_maintain.c  closes minutes that are due, drops old partitions, frees memory
//   rocksdb_delete.c    deletes series: no read shows them any more
//   rocksdb_rewrite.c, rocksdb_rewrite_merged.c  remove what is deleted from the files
//   rocksdb_merge.c, rocksdb_merge_span.c  merge the chunks of past hours, in longer slots as they age
//   rocksdb_check.c     checks a store that nobody writes
//
// Order of locks: maintain_lock, resolve_lock, partition->read_lock, partition->lock (two of them only under
// resolve_lock), partitions_lock, commit_lock, clock_lock.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/agent_table.h"
#include "collector/store/rocksdb/chunk.h"
#include "collector/store/rocksdb/chunk_helpers.h"
#include "collector/store/rocksdb/partition.h"
#include "collector/store/store_ops.h"

#define STORE_PARTITION_NS_DEFAULT (3600ULL * 1000000000ULL)
#define STORE_MEMORY_BYTES_DEFAULT (512ULL << 20)
#define STORE_FUTURE_NS_MAX        (3600ULL * 1000000000ULL) // a clock further ahead is wrong
// What retention drops in an hour: whatever is wrong, somebody has time to see it.
#define RETENTION_NS_PER_HOUR (24 * 3600ULL * 1000000000ULL)

// Formats (docs/format.md). From these on, minutes of past hours are merged; chunks may have sums.
#define STORE_FORMAT_MERGING 3
#define STORE_FORMAT_SUMS    4

enum {
	// Batches cover seconds, and each partition costs a dictionary: a batch over more
	// partitions is a mistake or an attack.
	BATCH_PARTITIONS_MAX = 8,
	PARTITIONS_MAX = 64 << 10, // seven years of hours
	PARTITIONS_KEPT = 2,       // whatever room they take: batches go to these
};

/** One batch's rows in one minute, to be committed. */
struct commit_part {
	struct partition *partition; // a reference and a pin
	struct raw_run *run;
	uint64_t oldest_ns, newest_ns;
};

/** A batch that waits for its commit; on the appending thread's stack. */
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
	atomic_ullong rows_late, rows_future, rows_series, stacks_dropped;
	atomic_ullong retention_put_off, rows_other;
	atomic_ullong chunk_bytes, chunk_rows;
	atomic_ullong series_deleted, rows_deleted;
	atomic_ullong agents_damaged;
	atomic_ullong rows_merged;
};

/** A pass over a partition that rewrites it without what is deleted. */
struct rewrite {
	struct partition *partition;       // a reference; NULL: none is under way
	struct tombstone_list *tombstones; // that it completes, a reference
	uint32_t *identity;                // by series: itself
	uint32_t series_count;
	uint32_t *groups; // with deleted series, ascending
	uint32_t group_count;
	uint32_t next_minute, next_group; // index in groups
	uint32_t next_merged;             // the same: their merged chunks come after the minutes
};

/** A pass over a partition that merges its chunks. */
struct merge {
	struct partition *partition; // a reference; NULL: none is under way
	uint64_t sequence;           // of the merged chunks: no row of a later commit
	uint64_t resolution_ns;      // of the merged chunks at least; 0: as the rows are
	uint32_t *hosts;             // by group: how many hosts its series are of
	uint32_t *identity;          // by series: itself
	uint32_t group_count, series_count;
	uint32_t next_group, next_minute;
	uint32_t span; // minutes of next_group's merged chunks; 0: not chosen yet
};

struct rocksdb_store {
	struct db *db;
	const struct store_clock *clock;
	uint64_t format;
	uint64_t retention_ns, partition_ns, memory_bytes;
	uint64_t seconds_after_ns, minutes_after_ns; // as in the options
	uint32_t run_rows_max, close_rows_max;
	struct chunk_helpers *helpers; // of queries
	uint32_t alone_rows;           // of a query, before they help
	struct store_counters counters;

	pthread_mutex_t partitions_lock;
	struct partition **partitions; // by start, each a reference
	uint32_t partition_count, partition_capacity;

	pthread_mutex_t resolve_lock; // one batch at a time adds stacks and series

	pthread_mutex_t commit_lock;
	pthread_cond_t commit_done;
	bool commit_busy;       // a leader writes, or rocksdb_commit_stop() was called
	struct commit *waiting; // newest first
	struct agent_table agents;
	uint64_t sequence; // the last commit's

	pthread_mutex_t clock_lock; // the last lock: nothing waits under it
	struct clock_guard clock_guard;

	pthread_mutex_t maintain_lock;
	uint64_t mark_saved_ns;                  // the mark on disk
	uint64_t hour_begun_ns, hour_dropped_ns; // monotonic; what retention has dropped since
	struct chunk_encoder *encoder;           // under maintain_lock, as what follows
	struct rewrite rewrite;
	struct merge merge;
	uint64_t merge_debt_ns; // time that merging has taken beyond its share
};

// rocksdb_store.c
/** As rocksdb_store_open(). With DB_READ_ONLY it is only queried. */
int rocksdb_core_open(const struct store_options *options, enum db_mode mode,
		      struct rocksdb_store **ret_store, struct error *err);
/**
 * Check the format, and read the partitions' length. -ENOENT without @err: an empty database. -EUCLEAN:
 * the numbers are damaged. -EBADMSG: another format.
 */
int rocksdb_read_partition_ns(struct db *db, const char *path, uint64_t *ret_partition_ns,
			      struct error *err);
/** NULL is allowed. */
void rocksdb_core_close(struct rocksdb_store *store);
void rocksdb_read_stats(struct rocksdb_store *store, struct store_stats *ret_stats);
/** Read those of the tombstones only. */
void rocksdb_read_tombstones(struct rocksdb_store *store, struct store_stats *stats);

/**
 * A reference to the partition that begins at @start_ns, created if missing, and pinned: its dictionaries stay in memory, and it is not removed as
 * empty. NULL when out of memory or at PARTITIONS_MAX.
 */
struct partition *rocksdb_pin_partition(struct rocksdb_store *store, uint64_t start_ns);
/** Release the pin and the reference; NULL is allowed. */
void rocksdb_unpin_partition(struct partition *partition);
void rocksdb_remove_partition(struct rocksdb_store *store, struct partition *partition);
/** Remove the partition if it is empty and not pinned. */
void rocksdb_remove_empty_partition(struct rocksdb_store *store, struct partition *partition);

/** Read the number under @name in DB_META; *ret_found is false if there is none. */
int rocksdb_read_number(struct db *db, const char *name, uint64_t *ret_number, bool *ret_found,
			struct error *err);
void rocksdb_put_number(struct db_batch *batch, const char *name, uint64_t number);

void rocksdb_read_damage(struct rocksdb_store *store, struct time_range range,
			 struct store_damage *ret_damage);
/** As store_resolution(). */
uint64_t rocksdb_resolution(struct rocksdb_store *store, struct time_range range);
/** Damage that was not asked for before. Returns false if there is none. */
bool rocksdb_next_damage(struct rocksdb_store *store, uint64_t *ret_start_ns,
			 char ret_text[PARTITION_DAMAGE_BYTES]);

/** References to the partitions that overlap a range, oldest first. */
struct partition_list {
	struct partition **partitions;
	uint32_t count;
};
int rocksdb_list_partitions(struct rocksdb_store *store, struct time_range range,
			    struct partition_list *ret_list);
void partition_list_deinit(struct partition_list *list);

static inline struct clock_reading rocksdb_now(const struct rocksdb_store *store)
{
	return (struct clock_reading){ store->clock->realtime_ns(), store->clock->monotonic_ns() };
}

/** What chunk_encode() is given for a chunk of one minute. */
static inline uint32_t rocksdb_chunk_minutes(const struct rocksdb_store *store)
{
	return store->format >= STORE_FORMAT_MERGING ? 1 : 0;
}

// rocksdb_clock.c
/** Judge the clock at @now. */
enum clock_doubt rocksdb_check_clock(struct rocksdb_store *store, const struct clock_reading *now);
/** Judge it by a batch, too. True: the clock is wrong, and the batch had better come again. */
bool rocksdb_clock_is_wrong(struct rocksdb_store *store, const struct store_batch_id *batch,
			    uint64_t to_ns, const struct clock_reading *now);
/** Read the mark of the last process; and save it, unless that was done lately. */
int rocksdb_restore_clock(struct rocksdb_store *store, bool accepted, struct error *err);
int rocksdb_save_clock(struct rocksdb_store *store, struct error *err);
void rocksdb_read_clock(struct rocksdb_store *store, char ret_text[STORE_CLOCK_TEXT_BYTES]);

// rocksdb_append.c
int rocksdb_append(struct rocksdb_store *store, const struct store_batch_id *batch,
		   const struct profile *profile, struct store_append_result *ret_result,
		   struct error *err);

// rocksdb_commit.c
/** Wait until @commit is on disk, refused or a duplicate. Returns its rc. */
int rocksdb_commit(struct rocksdb_store *store, struct commit *commit);
/** Stop commits, so that the caller alone writes; and resume them. */
void rocksdb_commit_stop(struct rocksdb_store *store);
void rocksdb_commit_resume(struct rocksdb_store *store);

// rocksdb_select.c
int rocksdb_select(struct rocksdb_store *store, const struct selector *selector, const char *type,
		   struct time_range range, struct store_selection **ret_selection,
		   struct error *err);
void rocksdb_selection_free(struct store_selection *selection);
int rocksdb_label_names(struct rocksdb_store *store, const struct selector *selector,
			struct time_range range, struct name_list *ret_list, struct error *err);
int rocksdb_label_values(struct rocksdb_store *store, const char *name,
			 const struct selector *selector, struct time_range range,
			 struct name_list *ret_list, struct error *err);

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
	uint32_t series_count; // of the group at the time of the selection
	uint32_t selected_count;
	uint32_t *series; // selected, ascending
};

struct rocksdb_selection {
	struct store_selection_private base;
	uint64_t opening; // of the store, by the keeper: partitions are valid within one
	struct selected_partition *partitions; // oldest first
	uint32_t partition_count;
	char *strings; // of all labels
	struct label *pairs;
};

// rocksdb_scan.c
int rocksdb_scan(struct rocksdb_store *store, const struct store_selection *selection,
		 const struct time_range *ranges, uint32_t range_count,
		 const struct store_scanner *scanner, struct error *err);
int rocksdb_activity(struct rocksdb_store *store, const struct store_selection *selection,
		     struct time_range range, uint64_t slot_ns, const uint32_t *rows,
		     int64_t *counts, struct error *err);

// rocksdb_close.c
/**
 * Turn the runs of @minute into chunks; rows that arrive meanwhile stay open. maintain_lock is held.
 * Returns 0, also without runs; -EBADMSG if the rows are damaged; -ENOMEM; -EIO; -ENOSPC.
 */
int rocksdb_close_minute(struct rocksdb_store *store, struct partition *partition, uint32_t minute,
			 struct error *err);

// rocksdb_delete.c
int rocksdb_delete(struct rocksdb_store *store, const struct selector *selector,
		   struct time_range range, struct store_deletion *ret_deletion, struct error *err);

// rocksdb_rewrite.c
/** Go on with the partitions of @list that have tombstones, for a while. maintain_lock is held. */
int rocksdb_rewrite(struct rocksdb_store *store, struct partition_list *list, struct error *err);
void rewrite_deinit(struct rewrite *rewrite);

// rocksdb_rewrite_merged.c
/** Rewrite the merged chunks of @group without what the tombstones of the pass have. */
int rocksdb_rewrite_merged(struct rocksdb_store *store, const struct rewrite *rewrite,
			   uint32_t group, struct error *err);

// rocksdb_merge.c
/** Read how far @partition is merged. */
int rocksdb_restore_merge(struct rocksdb_store *store, struct partition *partition,
			  struct error *err);
/** Go on with merging the partitions of @list that are due at @now_ns, for a while. maintain_lock is held. */
int rocksdb_merge(struct rocksdb_store *store, struct partition_list *list, uint64_t now_ns,
		  struct error *err);
/** A minute of @partition, whose lock is held, has been closed. */
void rocksdb_note_unmerged(struct rocksdb_store *store, struct partition *partition);
void merge_deinit(struct merge *merge);

// rocksdb_merge_span.c
/** Merge the next span of the pass, in one write. -EBADMSG: it is damaged, and stays as it is. */
int rocksdb_merge_span(struct rocksdb_store *store, const struct merge *merge, struct error *err);

// rocksdb_maintain.c
/** Free the disk of what is deleted of the partition. maintain_lock is held. */
void rocksdb_compact_partition(struct rocksdb_store *store, const struct partition *partition);
/** An agent_removed_fn; @context is the struct db_batch that deletes the entry. */
void rocksdb_delete_agent(void *context, const struct agent_entry *entry);
/**
 * Drop the oldest partition, for room. The newest PARTITIONS_KEPT stay: -ENOENT. *ret_start_ns is its
 * beginning.
 */
int rocksdb_drop_oldest(struct rocksdb_store *store, uint64_t *ret_start_ns, struct error *err);
/**
 * Drop a partition whose dictionary is damaged and that batches need: they begin it anew. -ENOENT: there is
 * none. *ret_start_ns is its beginning.
 */
int rocksdb_drop_unreadable(struct rocksdb_store *store, uint64_t *ret_start_ns,
			    char ret_damage[PARTITION_DAMAGE_BYTES], struct error *err);
int rocksdb_maintain(struct rocksdb_store *store, uint64_t now_ns, struct error *err);
int rocksdb_flush(struct rocksdb_store *store, struct error *err);
