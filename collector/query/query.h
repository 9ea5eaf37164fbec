// SPDX-License-Identifier: Apache-2.0
// Queries: a merged flame tree, a table of functions, time series, a heat map, a merged profile.
// Self and total are exact over all stacks; only then a tree is truncated for drawing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/profile/profile.h"
#include "base/string_table.h"
#include "collector/query/flame_tree.h"
#include "collector/query/query_select.h"

enum {
	QUERY_GROUPS_MAX = 100,           // groups of an answer; the rest are summed as "other"
	QUERY_GROUP_LABELS_MAX = 8,       // that a time series is grouped by
	QUERY_POINTS_MAX = 11000,         // per time series
	QUERY_SLOTS_MAX = 3600 * 50 * 6,  // heat map: 6 h of 20 ms
	QUERY_FINE_SLOTS_MAX = 3600 * 50, // read at a time for its peaks: 1 h of 20 ms
	QUERY_NODES_DEFAULT = 16384,
	QUERY_NODES_MAX = 1 << 20,
	QUERY_TIMELINE_SAMPLES_MAX = 1 << 20, // 64 CPUs at 99 Hz fill it in three minutes
	QUERY_THREADS_MAX = 500,              // rows of a timeline; the rest are counted
	QUERY_THREADS_SELECTED_MAX = 1 << 16, // among which the rows are chosen: 14 MiB
	QUERY_THREAD_SLOTS_MAX = 6000,        // of a timeline: two minutes of 20 ms
	QUERY_THREAD_CELLS_MAX = 2 << 20,     // slots of all parts of all threads: 16 MiB
	// Before truncation. 4 Mi nodes take 200 MB with their index.
	QUERY_TREE_NODES_MAX = 1 << 22,
};

#define QUERY_RANGE_NS_MAX (31ULL * 24 * 3600 * 1000000000ULL)

/**
 * Merge the selected samples into one tree. With group_by, the first level is the label's values;
 * series without the label are below "(no LABEL)". A sample without a stack is self time of the root or
 * of its group's node.
 *
 * With query->parts, only slots that begin in one of them count, each once.
 *
 * Values of a gauge (profile_type_is_gauge()) are means over the seconds of the range or its parts, widened to whole
 * seconds, between the store's oldest and newest data. A second without a value counts as 0.
 *
 * Errors of all queries: -EINVAL (the user can correct it; @err says how), -E2BIG (the answer exceeds a
 * limit), -ETIMEDOUT, -ENOMEM, and the store's.
 */
int query_flame_tree(const struct query *query, struct flame_tree *ret_tree, struct error *err);

/**
 * The callers and the callees of the function called @function in @tree, which is not grouped. Both trees have it as their
 * root. Each stack counts once, at the function's outermost call: totals are those of the table. The callers' tree is
 * upside down: a node's children are its callers, and self values are those of stacks that begin there. Without such
 * a function both are a root of 0. Returns 0, -ENOMEM, -E2BIG, or what @deadline (NULL: none) says.
 */
int flame_tree_callers(const struct flame_tree *tree, const char *function,
		       struct deadline *deadline, struct flame_tree *ret_callers,
		       struct flame_tree *ret_callees, struct error *err);

/** A function of the table. Its total counts recursion once. */
struct top_row {
	uint32_t name; // string of the tree
	uint32_t module;
	enum frame_kind kind;
	int64_t self;
	int64_t total;
	int64_t ran[FRAME_KIND_COUNT]; // of total: by the kind of code that ran, frame_ran_as()
};

/** The kind of code that a frame's own time counts as: the interpreter's own binary runs Python. */
enum frame_kind frame_ran_as(enum frame_kind kind, const char *module);

/** Reads tables of functions from a tree that does not change. One thread at a time. */
struct top_table;

/** NULL when out of memory. */
struct top_table *top_table_new(const struct flame_tree *tree);
void top_table_freep(struct top_table **table);

/**
 * Read the functions below node @root (a group's node in a grouped tree, otherwise 0), sorted by
 * falling self, then total. A function is a name and a kind; its module is that of its largest node, its
 * total that of its outermost calls. The rows are valid until the next call. Returns 0 or -ENOMEM; then
 * the table can only be freed.
 */
int top_table_read(struct top_table *table, uint32_t root, const struct top_row **ret_rows,
		   uint32_t *ret_count, struct error *err);

/**
 * Merge the selected samples into a profile for the exporters: one sample per stack and process, in slot
 * 0. Its series keep the label "process" and the group_by label.
 */
int query_profile(const struct query *query, struct profile **ret_profile, struct error *err);

/**
 * Copy the selected samples, each with its slot and its series, into a profile for timelines: slots of 1 ms. Wall-clock time
 * has the stacks of its parts (wall_stacks.h).
 * Gauges: -EINVAL; more than QUERY_TIMELINE_SAMPLES_MAX samples: -E2BIG.
 */
int query_timeline(const struct query *query, struct profile **ret_profile, struct error *err);

struct query_series {
	char *group;          // label value; "" without group_by; of several labels "value, value"
	struct labels labels; // of several labels: those that the group has
	int64_t total;        // of the values
	int64_t *values;      // one per step
};

struct query_series_set {
	struct query_series *series;
	uint32_t count;
	uint32_t step_count;
	uint64_t first_step_ns; // Unix time of the first step
	uint64_t step_ns;
	uint64_t resolution_ns; // as of a heat map
};

void query_series_set_deinit(struct query_series_set *set);
/**
 * Sum values per step of @step_ns and group, the largest groups first. Steps are whole and lie at
 * multiples of @step_ns: the first begins at or before the range, the last ends at or after it.
 *
 * Values of a gauge are means over the step's seconds, a total is the mean over all steps; a second
 * without a value counts as 0, and the step is rounded up to whole seconds.
 */
int query_series(const struct query *query, uint64_t step_ns, struct query_series_set *ret_set,
		 struct error *err);

struct heat_map {
	uint64_t from_ns; // start of the first slot
	uint64_t slot_ns;
	uint32_t slot_count; // slot i covers [from + i*slot, from + (i+1)*slot)
	int64_t *values;     // in the type's unit
	int64_t value_max;
	uint64_t resolution_ns; // some values are means over so long: downsampled; 0: none
	int64_t *peaks; // of each slot the largest sum over a finer slot in it; NULL: not asked for
};

void heat_map_deinit(struct heat_map *map);
/**
 * Sum values per slot of @slot_ns, which lie as the steps of query_series(). @peak_ns: the finer slot of the
 * peaks, of which @slot_ns is a multiple; 0: none. Gauges: -EINVAL.
 */
int query_heat_map(const struct query *query, uint64_t slot_ns, uint64_t peak_ns,
		   struct heat_map *ret_map, struct error *err);

/** A service: a value of the label `service`, "" where series have none. */
struct query_service {
	char *name;
	int64_t total;       // in the type's unit
	uint32_t node_count; // distinct labels `node` of its series with rows in the range
	uint32_t pod_count;
	uint32_t instance_count; // distinct service.instance.id
};

struct query_service_set {
	struct query_service *services;
	uint32_t count;
	int64_t total; // of all
};

void query_service_set_deinit(struct query_service_set *set);
/** The services of the range, the largest total first. Gauges: -EINVAL. */
int query_services(const struct query *query, struct query_service_set *ret_set, struct error *err);

/** What a thread did with its time, as far as one profile type and wait class know. */
struct thread_part {
	const char *type;      // PROFILE_TYPE_WALL: all of its time, as the kernel accounts for it
	const char *wait;      // the wait class of blocked time; "" of other types
	int64_t total;         // of the values
	const int64_t *values; // one per slot, nanoseconds; the timeline's
};

/** The threads that share a name: their series differ in type, wait class and state only. */
struct timeline_thread {
	struct labels labels;
	int64_t active; // running, runnable or blocked, idle waits excluded
	struct thread_part *parts;
	uint32_t part_count;
};

struct thread_timeline {
	uint64_t from_ns; // start of the first slot
	uint64_t slot_ns;
	uint32_t slot_count;
	struct timeline_thread *threads; // the most active first
	uint32_t thread_count;
	uint32_t left_out;       // threads beyond the limit
	int64_t left_out_active; // their time
	int64_t *values;         // of all parts
};

void thread_timeline_deinit(struct thread_timeline *timeline);
/**
 * What the selected threads did in each slot of @slot_ns, which lie as the steps of query_series(): CPU time, GPU
 * busy-wait, run-queue latency, blocked time by wait class, and all of their time. The query's type is not used. At most
 * @threads_max (up to QUERY_THREADS_MAX) threads, the most active ones. A part without time is left out.
 */
int query_threads(const struct query *query, uint64_t slot_ns, uint32_t threads_max,
		  struct thread_timeline *ret_timeline, struct error *err);
