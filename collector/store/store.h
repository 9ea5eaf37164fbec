// SPDX-License-Identifier: Apache-2.0
// Where profiles are kept. One interface, several implementations that pass the same conformance
// tests (tests/unit/store_conformance.h): the embedded RocksDB store first.
//
// A store is a set of time partitions. In each, stacks are nodes of a forest of frames (node =
// parent, frame) with dense ids where a parent's id is smaller than its children's, so that a
// stack is one integer and totals are one sweep from the highest id down. Samples are rows
// (series, slot, more_slots, node, value): what lasts longer than a slot is one row, and spread over
// its slots when it is read (interval.h). Thread-safe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id128.h"
#include "base/labels.h"
#include "base/profile.h"
#include "collector/store/selector.h"

struct store;

struct store_batch_id {
	struct id128 agent;
	struct id128 boot;
	uint64_t sequence;
};

struct store_options {
	const char *path;      // directory, created if missing
	uint64_t retention_ns; // older partitions are dropped whole; 0: never
	uint64_t partition_ns; // 0: the default, 1 h
	uint64_t memory_bytes; // for caches and open partitions; 0: the default, 512 MiB
};

/** What became of a batch. */
struct store_append_result {
	bool duplicate;               // stored before
	struct id128 *unknown_stacks; // owned by the caller; not empty: nothing was stored
	uint32_t unknown_stack_count;
};

/** One series as selected. */
struct store_series {
	uint32_t number; // dense within the selection: 0, 1, 2 ...
	struct labels labels;
	const char *type;
};

/** A time range in Unix nanoseconds, [from, to). */
struct time_range {
	uint64_t from_ns;
	uint64_t to_ns;
};

/**
 * Rows of one chunk that lie in the range, as columns. With slots, an interval that reaches over an
 * end of the range comes whole: interval_within() says what of it lies within.
 */
struct store_rows {
	uint32_t series; // number within the selection
	uint64_t slot_ns;
	uint32_t count;
	const uint64_t *slots;
	const uint32_t *more_slots; // slots covered after the first; NULL: none by any row
	const uint32_t *nodes;      // in the partition being scanned
	const int64_t *values;
};

/** A partition's forest as a query sees it: a stable snapshot, valid while its partition is scanned. */
struct store_forest {
	uint32_t node_count;
	const uint32_t *parents; // node 0 is the root of all, its own parent
	const uint32_t *frames;  // position in locations; for a node directly under the root that
		// stands for a stack's end (truncated), FOREST_FRAME_END + enum stack_end
	const struct profile *locations; // its locations and strings
};

#define FOREST_FRAME_END 0xffffff00U

/** How much of the rows a scan needs. What is not needed need not be read. */
enum scan_detail {
	SCAN_ROWS = 0, // every row
	// Sums per series and node of what lies in the range: slots is NULL, rows may come joined.
	SCAN_SERIES_SUMS,
	SCAN_SUMS, // sums per node: as above, and series is always 0
};

/** Receives a scan. A non-zero return ends it and is returned. Called from one thread. */
struct store_scanner {
	void *context;
	enum scan_detail detail; // a merge over whole minutes is many times faster by sums
	// For SCAN_SERIES_SUMS: by number of the series, which group it is in. Rows of several series
	// of a group may then come as one's. NULL: each is a group of its own.
	const uint32_t *groups;
	/** A partition begins; its rows follow. */
	int (*partition)(void *context, const struct store_forest *forest);
	int (*rows)(void *context, const struct store_rows *rows);
	/** All rows of the partition were given; its forest is valid until this returns. */
	int (*partition_end)(void *context);
};

/** The selection: which series match. */
struct store_selection {
	struct store_series *series;
	uint32_t series_count;
	void *private_; // of the implementation
};

struct store_stats {
	uint64_t rows_appended;
	uint64_t batches_appended;
	uint64_t batches_duplicate;
	uint64_t stored_bytes; // on disk, about
	uint64_t memory_bytes; // of caches and open partitions, about
	uint64_t series;       // in all partitions
	uint64_t partitions;
	uint64_t nodes;                // forest nodes in all partitions
	uint64_t rows_late_dropped;    // older than retention
	uint64_t rows_future_dropped;  // more than 1 h ahead of the collector's clock
	uint64_t chunk_bytes;          // compressed chunk bytes written
	uint64_t chunk_rows;           // rows in them
	uint64_t oldest_ns, newest_ns; // Unix time of data held, 0 when empty
	uint64_t rows_series_dropped;  // their series was one too many for the partition
	uint64_t stacks_refused; // one too many for the partition: their value counts as "lost"
	uint64_t agents;         // whose last sequence is remembered
};

/** Opens the embedded store. A lock keeps a second process out (err says so). */
int store_open_rocksdb(const struct store_options *options, struct store **ret_store,
		       struct error *err);
void store_close(struct store *store);

/**
 * Store a batch: durable (survives kill -9 and power loss) when 0 is returned and
 * unknown_stack_count is 0. A stack that is neither defined in @profile nor known to the store makes
 * the result name it, and nothing is stored. An interval that reaches into the next minute of Unix
 * time is cut there, and keeps its value. Errors: -EINVAL (the profile's time is absurd), -EIO,
 * -ENOSPC, -ENOMEM.
 */
int store_append(struct store *store, const struct store_batch_id *batch,
		 const struct profile *profile, struct store_append_result *ret_result,
		 struct error *err);

/** Which series match @selector, have @type (NULL: any) and data in @range. */
int store_select(struct store *store, const struct selector *selector, const char *type,
		 struct time_range range, struct store_selection **ret_selection,
		 struct error *err);
void store_selection_free(struct store_selection *selection);

/** All rows of the selection that have a slot that begins in @range. */
int store_scan(struct store *store, const struct store_selection *selection,
	       struct time_range range, const struct store_scanner *scanner, struct error *err);

/**
 * Sum of values per slot from the activity counters, without reading a stack. Slot i covers
 * [range.from_ns + i * slot_ns, range.from_ns + (i + 1) * slot_ns); there are
 * slot_count = (range.to_ns - range.from_ns) / slot_ns of them, and a rest of the range is left
 * out. A stored slot counts whole in the slot that it begins in, an interval's slots one by one. The
 * slots of a series are added to
 * @counts[row * slot_count ...], where row is @rows[series number], or 0 if @rows is NULL. Sums
 * that leave int64_t wrap.
 */
int store_activity(struct store *store, const struct store_selection *selection,
		   struct time_range range, uint64_t slot_ns, const uint32_t *rows, int64_t *counts,
		   struct error *err);

/** Sorted names (or values of @name, or types when @name is "__type__") of series that match. */
struct name_list {
	char **names;
	uint32_t count;
};
void name_list_deinit(struct name_list *list);
int store_label_names(struct store *store, const struct selector *selector, struct time_range range,
		      struct name_list *ret_list, struct error *err);
int store_label_values(struct store *store, const char *name, const struct selector *selector,
		       struct time_range range, struct name_list *ret_list, struct error *err);

/** Close chunks that are due, drop what is too old. Call it every second or so from one thread. */
int store_maintain(struct store *store, uint64_t now_ns, struct error *err);
/** Write everything that is still open to its final form (tests, clean shutdown). */
int store_flush(struct store *store, struct error *err);

void store_read_stats(struct store *store, struct store_stats *ret_stats);
