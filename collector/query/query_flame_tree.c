// SPDX-License-Identifier: Apache-2.0
// Merges the forests of partitions into one tree of names. Each live node of a forest maps to a
// node of the tree, parents first. A location with inlined calls becomes several levels, outermost
// first.
#include "collector/query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_sums.h"
#include "collector/symbols/symbolizer.h"

enum { DISPLAY_NAME_BYTES = STRING_BYTES_MAX + 64 };

/** A location is one level of the tree, or one for each inlined call. */
struct level {
	uint32_t name;
	uint32_t module;
	enum frame_kind kind;
};

/** The levels of a location, outermost first; count 0: not named yet. */
struct level_range {
	uint32_t first;
	uint32_t count;
};

struct tree_builder {
	struct flame_tree *tree;
	const struct query_groups *groups;
	const char *group_by;
	struct error *err;
	struct symbolizer *symbolizer;
	uint64_t symbolizer_ns;  // the symbolizer's time left
	struct hash_table index; // (parent, name, kind) to a node of the tree
	uint32_t *group_nodes;   // by group; UINT32_MAX: not added yet
	uint8_t *ended;          // by tree node: a stack ends here
	uint32_t ended_capacity;

	// Of the current partition.
	uint32_t *tree_of; // forest node to tree node
	uint32_t tree_of_capacity;
	struct level_range *ranges; // by location
	struct level *levels;
	uint32_t level_count, level_capacity;
};

struct node_key {
	uint32_t parent;
	uint32_t name;
	uint32_t kind;
};

static void builder_deinit(struct tree_builder *builder)
{
	hash_table_deinit(&builder->index);
	free(builder->group_nodes);
	free(builder->ended);
	free(builder->tree_of);
	free(builder->ranges);
	free(builder->levels);
}

static int out_of_memory(struct tree_builder *builder)
{
	return error_set(builder->err, -ENOMEM, "out of memory for a tree of %u nodes",
			 builder->tree->node_count);
}

static bool node_has_key(const void *context, uint32_t item, const void *key)
{
	const struct flame_node *node = &((const struct flame_node *)context)[item];
	const struct node_key *wanted = key;

	return node->parent == wanted->parent && node->name == wanted->name &&
	       (uint32_t)node->kind == wanted->kind;
}

static int reserve_node(struct tree_builder *builder)
{
	struct flame_tree *tree = builder->tree;
	int rc = array_reserve(&tree->nodes, sizeof(*tree->nodes), &tree->node_capacity,
			       tree->node_count, 1, QUERY_TREE_NODES_MAX);

	if (!rc)
		rc = array_reserve(&builder->ended, sizeof(*builder->ended),
				   &builder->ended_capacity, tree->node_count, 1,
				   QUERY_TREE_NODES_MAX);
	if (rc == -E2BIG)
		return error_set(
			builder->err, rc,
			"the answer has more than %d distinct call paths; choose a shorter "
			"range or fewer series",
			QUERY_TREE_NODES_MAX);
	return rc ? out_of_memory(builder) : 0;
}

static int add_node(struct tree_builder *builder, uint32_t parent, const struct level *level,
		    uint32_t *ret_node)
{
	struct flame_tree *tree = builder->tree;

	int rc = reserve_node(builder);

	if (rc)
		return rc;
	builder->ended[tree->node_count] = 0;
	tree->nodes[tree->node_count] = (struct flame_node){
		.parent = parent,
		.name = level->name,
		.module = level->module,
		.kind = level->kind,
	};
	*ret_node = tree->node_count++;
	return 0;
}

/** Find or add the child of @parent with @level's name and kind. */
static int find_child(struct tree_builder *builder, uint32_t parent, const struct level *level,
		      uint32_t *ret_node)
{
	const struct node_key key = { parent, level->name, (uint32_t)level->kind };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t node =
		hash_table_find(&builder->index, hash, node_has_key, builder->tree->nodes, &key);

	if (node == HASH_TABLE_NONE) {
		int rc = add_node(builder, parent, level, &node);
		if (rc)
			return rc;
		if (hash_table_add(&builder->index, hash, node))
			return out_of_memory(builder);
	}
	*ret_node = node;
	return 0;
}

static int add_string(struct tree_builder *builder, const char *string, uint32_t *ret_number)
{
	int rc = string_table_add(&builder->tree->strings, string, strlen(string), ret_number);

	if (rc == -E2BIG)
		return error_set(
			builder->err, rc,
			"the answer has too many distinct function names; choose a shorter "
			"range or fewer series");
	return rc ? out_of_memory(builder) : 0;
}

static int add_level(struct tree_builder *builder, const struct level *level)
{
	if (array_reserve(&builder->levels, sizeof(*level), &builder->level_capacity,
			  builder->level_count, 1, UINT32_MAX / 2))
		return out_of_memory(builder);
	builder->levels[builder->level_count++] = *level;
	return 0;
}

struct naming {
	struct tree_builder *builder;
	struct level level;
	uint32_t count; // of levels added
};

/** Add the levels of a location that the symbolizer found. */
static int add_lines(void *context, const struct source_lines *lines)
{
	struct naming *naming = context;
	char name[DISPLAY_NAME_BYTES];
	int rc = 0;

	for (uint32_t line = lines->count; !rc && line-- > 0;) {
		snprintf(name, sizeof(name), "%s", lines->lines[line].name);
		if (!name[0])
			continue;
		frame_name_clean(name);
		rc = add_string(naming->builder, name, &naming->level.name);
		if (!rc)
			rc = add_level(naming->builder, &naming->level);
		naming->count += rc == 0;
	}
	return rc;
}

/** Add a location's levels, once per partition. */
static int name_location(struct tree_builder *builder, const struct profile *locations,
			 uint32_t number)
{
	const struct location *location = &locations->locations[number];
	uint32_t count = location->line_count ? location->line_count : 1;
	struct level level = { .kind = location->kind };
	char name[DISPLAY_NAME_BYTES];

	int rc = add_string(builder, profile_string(locations, location->module), &level.module);
	builder->ranges[number].first = builder->level_count;
	if (!rc && !location->line_count && builder->symbolizer) {
		struct naming naming = { .builder = builder, .level = level };

		rc = symbolizer_find(builder->symbolizer, locations, location,
				     &builder->symbolizer_ns, add_lines, &naming);
		builder->ranges[number].count = naming.count;
		if (rc != -ENOENT)
			return rc;
		rc = 0; // shown by file and offset
	}
	for (uint32_t line = count; !rc && line-- > 0;) {
		location_display_name(locations, location, line, name, sizeof(name));
		rc = add_string(builder, name, &level.name);
		if (!rc)
			rc = add_level(builder, &level);
	}
	builder->ranges[number].count = count;
	return rc;
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct tree_builder *builder = context;

	if (forest->node_count > builder->tree_of_capacity) {
		free(builder->tree_of);
		builder->tree_of_capacity = 0;
		builder->tree_of = malloc(forest->node_count * sizeof(*builder->tree_of));
		if (!builder->tree_of)
			return out_of_memory(builder);
		builder->tree_of_capacity = forest->node_count;
	}
	free(builder->ranges);
	builder->level_count = 0;
	builder->ranges =
		calloc(forest->locations->location_count + 1ULL, sizeof(*builder->ranges));
	return builder->ranges ? 0 : out_of_memory(builder);
}

/** Find or add the node of truncated stacks, directly below the root or the group. */
static int find_end(struct tree_builder *builder, uint32_t parent, uint32_t end, uint32_t *ret_node)
{
	struct level level = { .kind = FRAME_KIND_UNKNOWN };
	char name[64];

	snprintf(name, sizeof(name), "[truncated: %s]",
		 end < STACK_END_COUNT ? stack_end_name((enum stack_end)end) : "unknown reason");
	int rc = add_string(builder, name, &level.name);
	return rc ? rc : find_child(builder, parent, &level, ret_node);
}

static void add_value(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value); // wraps instead of being undefined
}

/** Find or add the levels of a forest's node below tree node @at, and add @total to each. */
static int descend(struct tree_builder *builder, const struct store_forest *forest, uint32_t frame,
		   int64_t total, uint32_t at, uint32_t *ret_node)
{
	if (frame >= FOREST_FRAME_END) {
		int rc = find_end(builder, at, frame - FOREST_FRAME_END, &at);
		if (rc)
			return rc;
		add_value(&builder->tree->nodes[at].total, total);
		*ret_node = at;
		return 0;
	}
	if (frame >= forest->locations->location_count)
		return error_set(builder->err, -EIO, "store: a stack refers to location %u of %u",
				 frame, forest->locations->location_count);

	int rc =
		builder->ranges[frame].count ? 0 : name_location(builder, forest->locations, frame);
	const struct level_range range = builder->ranges[frame];
	for (uint32_t i = range.first; !rc && i < range.first + range.count; i++) {
		rc = find_child(builder, at, &builder->levels[i], &at);
		if (!rc)
			add_value(&builder->tree->nodes[at].total, total);
	}
	*ret_node = at;
	return rc;
}

/** Find or add a group's node; without group_by, the root. */
static int find_group(struct tree_builder *builder, uint32_t group, uint32_t *ret_node)
{
	if (!builder->group_by) {
		*ret_node = 0;
		return 0;
	}
	if (builder->group_nodes[group] == UINT32_MAX) {
		struct level level = { .kind = FRAME_KIND_UNKNOWN };
		const char *value = string_table_get(&builder->groups->keys, group);
		char absent[LABEL_NAME_BYTES_MAX + 8];

		snprintf(absent, sizeof(absent), "(no %s)", builder->group_by);
		int rc = add_string(builder, *value ? value : absent, &level.name);
		if (!rc)
			rc = find_child(builder, 0, &level, &builder->group_nodes[group]);
		if (rc)
			return rc;
	}
	*ret_node = builder->group_nodes[group];
	return 0;
}

static void end_stack(struct tree_builder *builder, uint32_t node, int64_t self)
{
	if (!self)
		return;

	add_value(&builder->tree->nodes[node].self, self);
	builder->tree->stack_count += !builder->ended[node];
	builder->ended[node] = 1;
}

static int on_sums(void *context, const struct forest_sums *sums)
{
	struct tree_builder *builder = context;
	const struct store_forest *forest = sums->forest;
	uint32_t top;

	int rc = find_group(builder, sums->group, &top);
	if (rc)
		return rc;

	add_value(&builder->tree->nodes[0].total, sums->total[0]);
	if (top)
		add_value(&builder->tree->nodes[top].total, sums->total[0]);
	end_stack(builder, top, sums->self[0]);
	builder->tree_of[0] = top;
	for (uint32_t i = 1; i < sums->live_count; i++) {
		uint32_t node = sums->live[i];

		rc = descend(builder, forest, forest->frames[node], sums->total[node],
			     builder->tree_of[forest->parents[node]], &builder->tree_of[node]);
		if (rc)
			return rc;
		end_stack(builder, builder->tree_of[node], sums->self[node]);
	}
	return 0;
}

static int builder_init(struct tree_builder *builder)
{
	struct level level = { .kind = FRAME_KIND_UNKNOWN };
	uint32_t root;

	if (string_table_init(&builder->tree->strings))
		return out_of_memory(builder);
	builder->group_nodes = malloc(builder->groups->count * sizeof(*builder->group_nodes));
	if (!builder->group_nodes)
		return out_of_memory(builder);
	memset(builder->group_nodes, 0xff, builder->groups->count * sizeof(*builder->group_nodes));

	int rc = add_string(builder, "total", &level.name);
	return rc ? rc : add_node(builder, 0, &level, &root);
}

static int build_tree(const struct query *query, const struct store_selection *selection,
		      const struct query_groups *groups, struct flame_tree *tree, struct error *err)
{
	_cleanup_(builder_deinit) struct tree_builder builder = {
		.tree = tree,
		.groups = groups,
		.group_by = query->group_by,
		.err = err,
		.symbolizer = query->symbolizer,
		.symbolizer_ns = SYMBOLIZER_NS_MAX,
	};
	const struct sums_reader reader = {
		.context = &builder,
		.partition = on_partition,
		.sums = on_sums,
	};

	int rc = builder_init(&builder);
	if (rc)
		return rc;

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
