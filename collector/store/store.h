// SPDX-License-Identifier: Apache-2.0
// The store's interface. An implementation fills struct store_ops (store_ops.h) and passes the
// conformance tests (tests/unit/collector/store/store_conformance.h): rocksdb/ and clickhouse/.
//
// A store is a set of time partitions. In each, a stack is a node of a forest of frames: a node is
// (parent, frame), and a parent's number is smaller than its children's. So a stack is one integer,
// and totals take one sweep from the highest number down. Samples are rows (series, slot,
// more_slots, node, value). A sample longer than a slot is one row, spread over its slots when it is
// read (interval.h). Thread-safe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id128.h"
#include "base/labels.h"
#include "base/profile/profile.h"
#include "collector/store/clock_guard.h"
#include "collector/store/selector.h"

struct store;

struct store_batch_id {
	struct id128 agent;
	struct id128 boot; // of a push: equal to agent
	uint64_t sequence;
	// Of whoever sent it, never from the message: a hash of the credential, or of the peer's
	// address. A batch is a duplicate only of the same identity's.
	struct id128 identity;
	// Whose clock it is, never from the message either: a hash of the credential and the peer's address.
	struct id128 clock;
	uint32_t tenant_series_max; // of its tenant in a partition; 0: the store's own
};

/** Is the batch a push of another profiler? Then its id is a hash of its content, and no other batch follows it. */
static inline bool store_batch_is_push(const struct store_batch_id *batch)
{
	return id128_equal(batch->agent, batch->boot);
}

/** Where a store reads its clocks: tests have their own. */
struct store_clock {
	uint64_t (*realtime_ns)(void);
	uint64_t (*monotonic_ns)(void);
};

struct store_options {
	const char *path;          // directory, created if missing
	uint64_t retention_ns;     // older partitions are dropped whole; 0: never
	uint64_t partition_ns;     // 0: the default, 1 h
	uint64_t memory_bytes;     // for caches and open partitions; 0: the default, 512 MiB
	uint32_t close_rows_max;   // rows of a minute that are closed at once; 0: the default, 4 Mi
	uint32_t helpers;          // threads that decode beside queries' own; 0: by CPUs
	uint32_t alone_rows;       // of a query, before they help; 0: 128 Ki; UINT32_MAX: never
	uint64_t disk_free_bytes;  // to be kept free on the disk; 0: nothing
	uint64_t size_bytes_max;   // of the store's files; 0: no limit
	uint64_t seconds_after_ns; // older partitions have slots of a second; 0: never
	uint64_t minutes_after_ns; // older partitions have slots of a minute; 0: never
	bool upgrade;      // write the newest format: earlier programs cannot go on with the store
	bool accept_clock; // the operator says that the clock is right
	const struct store_clock *clock; // NULL: the system's
};

/** A time range in Unix nanoseconds, [from, to). */
struct time_range {
	uint64_t from_ns;
	uint64_t to_ns;
};

/** The outcome of store_append(). */
struct store_append_result {
	bool duplicate;               // stored before
	struct id128 *unknown_stacks; // the caller's; not empty: nothing was stored
	uint32_t unknown_stack_count;
	// Rows of a stored batch that were refused, by reason.
	uint64_t rows_late, rows_future, rows_series;
	uint64_t rows_other;  // stored in a series of the excess: a quota of series is reached
	uint64_t rows_tenant; // of which it is the tenant's
	struct time_range accepted; // rows outside of it are late or of the future
};

/** A selected series. */
struct store_series {
	uint32_t number; // dense within the selection: 0, 1, 2 ...
	struct labels labels;
	const char *type;
};

/**
 * Rows of one chunk that overlap the range, as columns. With slots, an interval that crosses an end
 * of the range comes whole: use interval_within().
 */
struct store_rows {
	uint32_t series; // number within the selection
	uint64_t slot_ns;
	uint32_t count;
	const uint64_t *slots;
	const uint32_t *more_slots; // slots covered after the first; NULL: no row has any
	const uint32_t *nodes;      // of the partition being scanned
	const int64_t *values;
};

/** A snapshot of a partition's forest, valid while the partition is scanned. */
struct store_forest {
	uint32_t node_count;
	const uint32_t *parents; // node 0 is the root, its own parent
	// By node: a position in locations. Of a truncated stack the outermost node, directly below
	// the root, has FOREST_FRAME_END + enum stack_end instead.
	const uint32_t *frames;
	const struct profile *locations; // its locations and strings
};

#define FOREST_FRAME_END 0xffffff00U

/** How much of the rows a scan needs. The less, the less is read. */
enum scan_detail {
	SCAN_ROWS = 0, // every row
	// Sums per series and node over the range: slots is NULL, rows may come joined.
	SCAN_SERIES_SUMS,
	SCAN_SUMS, // sums per node: as above, and series is always 0
};

/** Receives a scan, on one thread. A non-zero return ends the scan and is returned. */
struct store_scanner {
	void *context;
	enum scan_detail detail; // whole minutes are many times faster by sums
	// For SCAN_SERIES_SUMS: the group of each series. Rows of a group may come under any of its
	// series. NULL: each series is a group of its own.
	const uint32_t *groups;
	/** A partition begins; its rows follow. */
	int (*partition)(void *context, const struct store_forest *forest);
	int (*rows)(void *context, const struct store_rows *rows);
	/** A partition ends; its forest is valid until this returns. */
	int (*partition_end)(void *context);
};

/** The series that match. */
struct store_selection {
	struct store_series *series;
	uint32_t series_count;
	struct deadline *deadline; // the selector's
	void *private_;            // the implementation's
};

struct store_stats {
	uint64_t rows_appended;
	uint64_t batches_appended;
	uint64_t batches_duplicate;
	uint64_t stored_bytes; // on disk, approximate
	uint64_t memory_bytes; // caches and open partitions, approximate
	uint64_t series;       // in all partitions
	uint64_t partitions;
	uint64_t nodes;                // forest nodes in all partitions
	uint64_t rows_late_dropped;    // refused: older than retention
	uint64_t rows_future_dropped;  // refused: more than 1 h ahead of the collector's clock
	uint64_t clock_doubted;        // 1: retention waits until the clock is right or confirmed
	uint64_t retention_put_off;    // runs that stopped at RETENTION_NS_PER_HOUR
	uint64_t chunk_bytes;          // written, compressed
	uint64_t chunk_rows;           // rows in written chunks
	uint64_t oldest_ns, newest_ns; // Unix time of stored rows, 0 when empty
	uint64_t rows_other;           // stored in series of the excess: a quota was reached
	uint64_t rows_series_dropped;  // the partition's limit on series was reached
	uint64_t
		stacks_dropped; // the partition's limit on stacks was reached: their values count as lost
	uint64_t agents, pushes;                 // entries in the table of acknowledged batches
	uint64_t agents_evicted, pushes_evicted; // from it, by newer ones
	uint64_t batches_refused;                // while the disk was full or failed
	uint64_t partitions_dropped;             // the oldest, for room on the disk
	uint64_t write_failures;                 // each closes the store and opens it again
	uint64_t disk_free_bytes;
	uint64_t partitions_damaged;         // with parts that cannot be read
	uint64_t partitions_damaged_deleted; // damaged, and batches needed them
	uint64_t damaged_openings; // found damaged when it was opened: batches may be missing
	uint64_t repairs;          // of files that could not be read
	uint64_t agents_damaged;   // entries of acknowledged sequences
	uint64_t series_deleted;
	uint64_t rows_deleted;      // removed from disk since
	uint64_t tombstones;        // deletions by partition that wait for its rewrite
	uint64_t tombstone_series;  // in them
	uint64_t rows_merged;       // written to merged chunks
	uint64_t partitions_merged; // of which all closed minutes are merged
};

/** What a deletion has found. */
struct store_deletion {
	uint32_t series;
	uint32_t partitions; // with rows of them
};

/** What is known to be damaged, and left out of answers. */
struct store_damage {
	uint32_t partitions;
	uint64_t first_ns; // the beginning of the oldest
};

/** Does the store take batches? */
enum { STORE_CLOCK_TEXT_BYTES = 160 };

struct store_health {
	bool takes_batches;
	char text[ERROR_TEXT_BYTES]; // if not, why, and what to do
	// What is wrong with the clock, so that nothing is deleted; "" if nothing is.
	char clock[STORE_CLOCK_TEXT_BYTES];
};

void store_close(struct store *store);

/**
 * Store a batch, whole or not at all. It is durable (survives kill -9 and power loss) when 0 is
 * returned and unknown_stack_count is 0. Stacks that neither @profile defines nor the store knows
 * are in the result, and nothing is stored. Of a batch without one accepted row nothing is recorded: it
 * may come again, as after a longer retention. An interval is cut at the end of its minute of Unix time
 * and keeps its value. Errors: -EINVAL (the profile's time is absurd), -EIO, -ENOSPC, -ENOMEM;
 * -EAGAIN: rows lie outside of the accepted range, but the store doubts its own clock.
 */
int store_append(struct store *store, const struct store_batch_id *batch,
		 const struct profile *profile, struct store_append_result *ret_result,
		 struct error *err);

/**
 * Select the series that match @selector, have @type (NULL: any) and rows in @range. Returns 0; what
 * selector_check_cost() returns; -EIO, -EBADMSG, -ENOMEM. This and all that reads a selection ends at the
 * selector's deadline, and delays no append.
 */
int store_select(struct store *store, const struct selector *selector, const char *type,
		 struct time_range range, struct store_selection **ret_selection,
		 struct error *err);
void store_selection_free(struct store_selection *selection);

/** Scan the selection's rows with a slot that begins in @range. */
int store_scan(struct store *store, const struct store_selection *selection,
	       struct time_range range, const struct store_scanner *scanner, struct error *err);

/**
 * Scan several ranges, sorted and disjoint. The embedded store reads what lies in a partition once for all of
 * them; elsewhere a partition comes again for each range.
 */
int store_scan_ranges(struct store *store, const struct store_selection *selection,
		      const struct time_range *ranges, uint32_t range_count,
		      const struct store_scanner *scanner, struct error *err);

/**
 * Sum values per slot of @slot_ns, without reading stacks. Slot i begins at range.from_ns + i *
 * slot_ns; there are slot_count = (range.to_ns - range.from_ns) / slot_ns whole ones. A stored slot
 * counts whole where it begins, an interval slot by slot; a slot that age has made longer than the answer's is
 * spread evenly over those. A series' sums are added to
 * @counts[row * slot_count ...]; row is @rows[series number], or 0 if @rows is NULL. A series of STORE_ROW_NONE is left out, and not
 * read. Sums wrap.
 */
#define STORE_ROW_NONE UINT32_MAX
int store_activity(struct store *store, const struct store_selection *selection,
		   struct time_range range, uint64_t slot_ns, const uint32_t *rows, int64_t *counts,
		   struct error *err);

/** Label names of the series that match, or values of label @name ("__type__": types). Sorted. */
struct name_list {
	char **names;
	uint32_t count;
};
void name_list_deinit(struct name_list *list);
int store_label_names(struct store *store, const struct selector *selector, struct time_range range,
		      struct name_list *ret_list, struct error *err);
int store_label_values(struct store *store, const char *name, const struct selector *selector,
		       struct time_range range, struct name_list *ret_list, struct error *err);

/**
 * Delete what is stored of the series that match @selector in @range, which begins and ends at whole
 * minutes (or is open: 0, UINT64_MAX). When 0 is returned nothing of it is shown again, also after kill -9
 * and power loss; maintenance removes it from disk. Batches that are appended later are not concerned.
 * Errors: -EINVAL (the range); -EAGAIN (too many deletions wait for maintenance); -EROFS; as
 * store_select(); as store_append().
 */
int store_delete(struct store *store, const struct selector *selector, struct time_range range,
		 struct store_deletion *ret_deletion, struct error *err);

/** Close minutes that are due, drop old partitions. Call it about once a second, on one thread. */
int store_maintain(struct store *store, uint64_t now_ns, struct error *err);
/** Close all open minutes, and free the disk of what is deleted (for tests and benchmarks). */
int store_flush(struct store *store, struct error *err);

/** Add a backup of the store, as it is now, to @folder. Batches are stored and queries run meanwhile. */
int store_backup(struct store *store, const char *folder, struct error *err);

void store_read_stats(struct store *store, struct store_stats *ret_stats);
/** Damage in partitions that overlap @range. */
void store_read_damage(struct store *store, struct time_range range,
		       struct store_damage *ret_damage);
/** The longest slots that age has given to rows in @range; 0: they are as they came. */
uint64_t store_resolution(struct store *store, struct time_range range);
void store_read_health(struct store *store, struct store_health *ret_health);
