// SPDX-License-Identifier: Apache-2.0
#include "collector/query/tree_builder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collector/symbols/symbolizer.h"

enum {
	DISPLAY_NAME_BYTES = STRING_BYTES_MAX + 64,
	// Most nodes have one child or two: looking at these costs less than a hash and a search in a table that no cache
	// holds. The other children of a node are in the index.
	CHILDREN_LISTED_MAX = 8,
};

struct node_key {
	uint32_t parent;
	uint32_t name;
	uint32_t kind;
};

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

/** Room for @more nodes. */
static int reserve_nodes(struct tree_builder *builder, uint32_t more)
{
	struct flame_tree *tree = builder->tree;
	int rc = array_reserve(&tree->nodes, sizeof(*tree->nodes), &tree->node_capacity,
			       tree->node_count, more, builder->nodes_max);

	if (rc == -E2BIG)
		return error_set(
			builder->err, rc,
			"the answer has more than %u distinct call paths; choose a shorter "
			"range or fewer series",
			builder->nodes_max);
	if (rc)
		return out_of_memory(builder);
	if (tree->node_capacity <= builder->link_capacity)
		return 0;
	struct tree_link *larger =
		reallocarray(builder->links, tree->node_capacity, sizeof(*larger));
	if (!larger)
		return out_of_memory(builder);
	builder->links = larger;
	builder->link_capacity = tree->node_capacity;
	return 0;
}

static int add_node(struct tree_builder *builder, uint32_t parent, const struct level *level,
		    uint32_t *ret_node)
{
	struct flame_tree *tree = builder->tree;

	if (tree->node_count >= builder->link_capacity) {
		int rc = reserve_nodes(builder, 1);
		if (rc)
			return rc;
	}
	tree->nodes[tree->node_count] = (struct flame_node){
		.parent = parent,
		.name = level->name,
		.module = level->module,
		.kind = level->kind,
	};
	builder->links[tree->node_count] =
		(struct tree_link){ .name = level->name, .kind = (uint8_t)level->kind };
	*ret_node = tree->node_count++;
	return 0;
}

static uint64_t hash_of_child(const struct node_key *key)
{
	return hash64_of(key, sizeof(*key));
}

/** Find a child in its parent's list, or beyond that in the index. */
static uint32_t find_child(const struct tree_builder *builder, const struct node_key *key)
{
	const struct tree_link *links = builder->links, *parent = &links[key->parent];

	for (uint32_t child = parent->first; child; child = links[child].next)
		if (links[child].name == key->name && links[child].kind == key->kind)
			return child;
	if (parent->count < CHILDREN_LISTED_MAX)
		return HASH_TABLE_NONE;
	return hash_table_find(&builder->index, hash_of_child(key), node_has_key,
			       builder->tree->nodes, key);
}

static int index_child(struct tree_builder *builder, const struct node_key *key, uint32_t node)
{
	struct tree_link *parent = &builder->links[key->parent];

	if (parent->count == CHILDREN_LISTED_MAX)
		return hash_table_add(&builder->index, hash_of_child(key), node);
	builder->links[node].next = parent->first;
	parent->first = node;
	parent->count++;
	return 0;
}

int tree_builder_reserve(struct tree_builder *builder, uint32_t count)
{
	uint32_t left = builder->nodes_max - builder->tree->node_count;

	return reserve_nodes(builder, count < left ? count : left);
}

int tree_builder_child(struct tree_builder *builder, uint32_t parent, const struct level *level,
		       uint32_t *ret_node)
{
	const struct node_key key = { parent, level->name, (uint32_t)level->kind };
	uint32_t node = find_child(builder, &key);

	if (node == HASH_TABLE_NONE) {
		int rc = add_node(builder, parent, level, &node);
		if (rc)
			return rc;
		if (index_child(builder, &key, node))
			return out_of_memory(builder);
	}
	*ret_node = node;
	return 0;
}

int tree_builder_string(struct tree_builder *builder, const char *string, uint32_t *ret_number)
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
		frame_title_of_source(&lines->lines[line], naming->builder->lines, name,
				      sizeof(name));
		if (!name[0])
			continue;
		rc = tree_builder_string(naming->builder, name, &naming->level.name);
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

	int rc = tree_builder_string(builder, profile_string(locations, location->module),
				     &level.module);
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
		frame_title(locations, location, line, builder->lines, name, sizeof(name));
		rc = tree_builder_string(builder, name, &level.name);
		if (!rc)
			rc = add_level(builder, &level);
	}
	builder->ranges[number].count = count;
	return rc;
}

/** Find or add the node of truncated stacks, directly below the root or the group. */
static int find_end(struct tree_builder *builder, uint32_t parent, uint32_t end, uint32_t *ret_node)
{
	struct level level = { .kind = FRAME_KIND_UNKNOWN };
	char name[64];

	snprintf(name, sizeof(name), "[truncated: %s]",
		 end < STACK_END_COUNT ? stack_end_name((enum stack_end)end) : "unknown reason");
	int rc = tree_builder_string(builder, name, &level.name);
	return rc ? rc : tree_builder_child(builder, parent, &level, ret_node);
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
		rc = tree_builder_child(builder, at, &builder->levels[i], &at);
		if (!rc)
			add_value(&builder->tree->nodes[at].total, total);
	}
	*ret_node = at;
	return rc;
}

int tree_builder_map(struct tree_builder *builder, const struct store_forest *forest, uint32_t node,
		     int64_t total)
{
	return descend(builder, forest, forest->frames[node], total,
		       builder->tree_of[forest->parents[node]], &builder->tree_of[node]);
}

int tree_builder_init(struct tree_builder *builder, struct flame_tree *tree, uint32_t nodes_max,
		      struct symbolizer *symbolizer, struct error *err)
{
	struct level level = { .kind = FRAME_KIND_UNKNOWN };
	uint32_t root;

	*builder = (struct tree_builder){
		.tree = tree,
		.err = err,
		.nodes_max = nodes_max,
		.symbolizer = symbolizer,
		.symbolizer_ns = SYMBOLIZER_NS_MAX,
	};
	if (string_table_init(&tree->strings))
		return out_of_memory(builder);

	int rc = tree_builder_string(builder, "total", &level.name);
	return rc ? rc : add_node(builder, 0, &level, &root);
}

void tree_builder_deinit(struct tree_builder *builder)
{
	hash_table_deinit(&builder->index);
	free(builder->links);
	free(builder->tree_of);
	free(builder->ranges);
	free(builder->levels);
}

int tree_builder_partition(struct tree_builder *builder, const struct store_forest *forest)
{
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
