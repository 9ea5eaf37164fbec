// SPDX-License-Identifier: Apache-2.0
// Merges the selected samples into one tree of names. Each live node of a forest maps to a node of the tree
// (tree_builder.h); with group_by, below the node of its group.
#include "collector/query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_sums.h"
#include "collector/query/tree_builder.h"

struct merging {
	struct tree_builder builder;
	const struct query_groups *groups;
	const char *group_by;
	uint32_t *group_nodes; // by group; UINT32_MAX: not added yet
	uint8_t *ended;        // by tree node: a stack ends here
	uint32_t ended_count;
};

static void merging_deinit(struct merging *merging)
{
	tree_builder_deinit(&merging->builder);
	free(merging->group_nodes);
	free(merging->ended);
}

static int out_of_memory(struct merging *merging)
{
	return error_set(merging->builder.err, -ENOMEM, "out of memory for a tree of %u nodes",
			 merging->builder.tree->node_count);
}

static void add_value(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value); // wraps instead of being undefined
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct merging *merging = context;

	return tree_builder_partition(&merging->builder, forest);
}

/** Find or add a group's node; without group_by, the root. */
static int find_group(struct merging *merging, uint32_t group, uint32_t *ret_node)
{
	struct tree_builder *builder = &merging->builder;

	if (!merging->group_by) {
		*ret_node = 0;
		return 0;
	}
	if (merging->group_nodes[group] == UINT32_MAX) {
		struct level level = { .kind = FRAME_KIND_UNKNOWN };
		const char *value = string_table_get(&merging->groups->keys, group);
		char absent[LABEL_NAME_BYTES_MAX + 8];

		snprintf(absent, sizeof(absent), "(no %s)", merging->group_by);
		int rc = tree_builder_string(builder, *value ? value : absent, &level.name);
		if (!rc)
			rc = tree_builder_child(builder, 0, &level, &merging->group_nodes[group]);
		if (rc)
			return rc;
	}
	*ret_node = merging->group_nodes[group];
	return 0;
}

static int reserve_ended(struct merging *merging)
{
	uint32_t capacity = merging->builder.tree->node_capacity;

	if (merging->ended_count >= merging->builder.tree->node_count)
		return 0;
	uint8_t *ended = realloc(merging->ended, capacity);
	if (!ended)
		return out_of_memory(merging);
	memset(ended + merging->ended_count, 0, capacity - merging->ended_count);
	merging->ended = ended;
	merging->ended_count = capacity;
	return 0;
}

static int end_stack(struct merging *merging, uint32_t node, int64_t self)
{
	struct flame_tree *tree = merging->builder.tree;
	int rc = self ? reserve_ended(merging) : 0;

	if (!self || rc)
		return rc;
	add_value(&tree->nodes[node].self, self);
	tree->stack_count += !merging->ended[node];
	merging->ended[node] = 1;
	return 0;
}

static int on_sums(void *context, const struct forest_sums *sums)
{
	struct merging *merging = context;
	struct tree_builder *builder = &merging->builder;
	struct flame_node *nodes;
	uint32_t top;

	// The first partition's nodes are new; most of a later one's are there.
	int rc = builder->tree->node_count == 1 ? tree_builder_reserve(builder, sums->live_count)
						: 0;
	if (!rc)
		rc = find_group(merging, sums->group, &top);
	if (rc)
		return rc;

	nodes = builder->tree->nodes;
	add_value(&nodes[0].total, sums->total[0]);
	if (top)
		add_value(&nodes[top].total, sums->total[0]);
	rc = end_stack(merging, top, sums->self[0]);
	builder->tree_of[0] = top;
	for (uint32_t i = 1; !rc && i < sums->live_count; i++) {
		uint32_t node = sums->live[i];

		rc = tree_builder_map(builder, sums->forest, node, sums->total[node]);
		if (!rc)
			rc = end_stack(merging, builder->tree_of[node], sums->self[node]);
	}
	return rc;
}

static int build_tree(const struct query *query, const struct store_selection *selection,
		      const struct query_groups *groups, struct flame_tree *tree, struct error *err)
{
	_cleanup_(merging_deinit) struct merging merging = {
		.groups = groups,
		.group_by = query->group_by,
	};
	const struct sums_reader reader = {
		.context = &merging,
		.partition = on_partition,
		.sums = on_sums,
	};

	int rc = tree_builder_init(&merging.builder, tree, QUERY_TREE_NODES_MAX, query->symbolizer,
				   err);
	if (rc)
		return rc;
	merging.builder.lines = query->lines;
	merging.group_nodes = malloc(groups->count * sizeof(*merging.group_nodes));
	if (!merging.group_nodes)
		return out_of_memory(&merging);
	memset(merging.group_nodes, 0xff, groups->count * sizeof(*merging.group_nodes));

	tree->grouped = query->group_by != NULL;
	tree->series_count = selection->series_count;
	return selection->series_count
		       ? query_sum(query, selection, groups, &reader, &tree->row_count, err)
		       : 0;
}

/** Divide by @seconds: self values are rounded, totals are sums of rounded values. */
static void average_tree(struct flame_tree *tree, int64_t seconds)
{
	if (seconds == 1)
		return;
	for (uint32_t i = 0; i < tree->node_count; i++) {
		tree->nodes[i].self = query_gauge_mean(tree->nodes[i].self, seconds);
		tree->nodes[i].total = 0;
	}
	for (uint32_t i = tree->node_count; i-- > 0;) {
		struct flame_node *node = &tree->nodes[i];

		add_value(&node->total, node->self);
		if (i)
			add_value(&tree->nodes[node->parent].total, node->total);
	}
}

int query_flame_tree(const struct query *asked, struct flame_tree *ret_tree, struct error *err)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct query whole = *asked, *query = &whole;
	int64_t seconds = 1;

	query_widen_gauge(query);
	int rc = query_select(query, &selection, err);
	if (!rc)
		rc = query_gauge_seconds(query, selection, &seconds, err);
	if (rc)
		return rc;
	rc = query_groups_init(&groups, selection, &query->group_by, query->group_by ? 1 : 0);
	if (rc)
		return error_set(err, rc, "too many values of %s to group by", query->group_by);
	rc = build_tree(query, selection, &groups, &tree, err);
	if (rc)
		return rc;
	average_tree(&tree, seconds);

	*ret_tree = tree;
	tree = (struct flame_tree){ 0 };
	return 0;
}
