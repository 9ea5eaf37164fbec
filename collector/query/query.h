// SPDX-License-Identifier: Apache-2.0
// Questions to the store: one merged flame tree, a table of functions, a time series, a heat map.
// Self, total and the table are computed exactly over all stacks before anything is truncated for drawing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/profile.h"
#include "base/string_table.h"
#include "collector/query/query_select.h"

enum {
	QUERY_GROUPS_MAX = 100,   // series of a grouped answer; the rest are summed as "other"
	QUERY_POINTS_MAX = 11000, // per time series
	QUERY_SLOTS_MAX = 3600 * 50 * 6, // heat map: 6 h of 20 ms
	QUERY_NODES_DEFAULT = 16384,
	QUERY_NODES_MAX = 1 << 20,
	// Of a tree before truncation: 200 MB with its index. More paths than that in one answer are
	// nobody's question.
	QUERY_TREE_NODES_MAX = 1 << 22,
};

#define QUERY_RANGE_NS_MAX (31ULL * 24 * 3600 * 1000000000ULL)

/** A merged call tree, by names: children of one parent with the same display name are one node. */
struct flame_node {
	uint32_t parent; // node 0: root ("total"), its own parent. Parents come before children
	uint32_t name;   // in strings
	uint32_t module; // in strings, 0: none
	enum frame_kind kind;
	int64_t self;
	int64_t total;
};

struct flame_tree {
	struct string_table strings;
	struct flame_node *nodes;
	uint32_t node_count, node_capacity;
	bool grouped;         // children of the root are the groups, not functions
	uint64_t stack_count; // distinct stacks (by names) that samples ended in
	uint64_t row_count;   // rows merged
	uint64_t series_count;
};

void flame_tree_deinit(struct flame_tree *tree);
/**
 * With group_by, the first level is the label's values; series without the label are under
 * "(no LABEL)". Errors of all queries: -EINVAL for what the user can mend (@err says how), -E2BIG
 * for an answer above a limit, -ENOMEM, and the store's. Samples without a stack count for the root,
 * or their group's node, itself. Of a gauge (profile_type_is_gauge()) values are means over the seconds
 * of the range that lie between the store's oldest and newest data, a second without a value counts as
 * 0; the range is widened to whole seconds.
 */
int query_flame_tree(const struct query *query, struct flame_tree *ret_tree, struct error *err);

/**
 * Keep the root and the @nodes_max - 1 largest other nodes (and their parents); what is cut below a
 * kept node is said in @ret_cut (value that is no longer shown as a child of its parent, which keeps
 * its exact total). Returns 0 or -ENOMEM.
 */
int flame_tree_truncate(struct flame_tree *tree, uint32_t nodes_max, int64_t *ret_cut);

/**
 * Take from the self values of @tree what the same stacks have in @before; what shrank is 0. Totals stay as
 * they are. Returns 0 or -ENOMEM.
 */
int flame_tree_subtract(struct flame_tree *tree, const struct flame_tree *before);

/** One function of the table. Recursion counts once in total. */
struct top_row {
	uint32_t name; // in the tree's strings
	uint32_t module;
	enum frame_kind kind;
	int64_t self;
	int64_t total;
};

/** Reads tables of functions from a tree, which must stay as it is meanwhile. One thread at a time. */
struct top_table;

/** NULL when out of memory. */
struct top_table *top_table_new(const struct flame_tree *tree);
void top_table_freep(struct top_table **table);

/**
 * Exact rows of all functions below node @root (before truncation), by self then total, largest
 * first. In a grouped tree, @root is a group's node; otherwise 0. Functions are told apart by name
 * and kind; the module is the one of the largest node. A function's total is that of its outermost
 * calls. The rows belong to the table and are valid until the next call. Returns 0 or -ENOMEM, and
 * then the table is of no more use.
 */
int top_table_read(struct top_table *table, uint32_t root, const struct top_row **ret_rows,
		   uint32_t *ret_count, struct error *err);

/**
 * Merged samples as a profile with one sample per stack and process, slot 0, for the exporters.
 * Its series keep the label "process" and the one of group_by.
 */
int query_profile(const struct query *query, struct profile **ret_profile, struct error *err);

struct query_series {
	char *group;     // label value; "" without group_by
	int64_t total;   // the sum of the values
	int64_t *values; // one per step
};

struct query_series_set {
	struct query_series *series;
	uint32_t count;
	uint32_t step_count;
	uint64_t first_step_ns; // Unix time of the first step
	uint64_t step_ns;
};

void query_series_set_deinit(struct query_series_set *set);
/**
 * Values summed per @step_ns, largest groups first. Steps lie at multiples of @step_ns and are
 * whole: the first begins at or before the range, the last ends at or after it. Of a gauge
 * (profile_type_is_gauge()), values are means over the step's seconds, a second without a value
 * counts as 0, totals are means over all steps; the step is rounded up to whole seconds.
 */
int query_series(const struct query *query, uint64_t step_ns, struct query_series_set *ret_set,
		 struct error *err);

struct heat_map {
	uint64_t from_ns; // start of the first slot
	uint64_t slot_ns;
	uint32_t slot_count; // slot i covers [from + i*slot, from + (i+1)*slot)
	int64_t *values;     // in the type's unit
	int64_t value_max;
};

void heat_map_deinit(struct heat_map *map);
/** Slots are whole and lie at multiples of @slot_ns, as the steps of query_series() do. No gauges. */
int query_heat_map(const struct query *query, uint64_t slot_ns, struct heat_map *ret_map,
		   struct error *err);
