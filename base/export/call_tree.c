// SPDX-License-Identifier: Apache-2.0
#include "base/export/call_tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/saturating.h"

// A tree while it grows, with what has been looked up once already.
struct growth {
	struct call_tree *tree;
	const struct profile *profile;
	uint32_t *process_nodes;  // per series: the node of its process, 0: not yet
	uint32_t *line_names;     // per line of the profile: its name in the tree, 0: not yet
	uint32_t *location_names; // per location: its name in the tree when unresolved, 0: not yet
	struct leaf *leaves;      // per stack: where its last sample went
};

struct leaf {
	uint32_t process; // the process's node, 0: none yet
	uint32_t node;
};

struct node_key {
	uint32_t parent;
	uint32_t name;
};

static void growth_deinit(struct growth *growth)
{
	free(growth->process_nodes);
	free(growth->line_names);
	free(growth->location_names);
	free(growth->leaves);
}

static int growth_init(struct growth *growth)
{
	const struct profile *profile = growth->profile;

	// One more, because calloc(0) may return NULL.
	growth->process_nodes = calloc(profile->series_count + 1, sizeof(uint32_t));
	growth->line_names = calloc(profile->line_count + 1, sizeof(uint32_t));
	growth->location_names = calloc(profile->location_count + 1, sizeof(uint32_t));
	growth->leaves = calloc(profile->stack_count + 1, sizeof(struct leaf));
	if (!growth->process_nodes || !growth->line_names || !growth->location_names ||
	    !growth->leaves)
		return -ENOMEM;
	return 0;
}

// ---- nodes ----------------------------------------------------------------------------------

static bool node_equal(const void *context, uint32_t item, const void *key)
{
	const struct call_tree *tree = context;
	const struct node_key *wanted = key;

	return tree->nodes[item].parent == wanted->parent && tree->nodes[item].name == wanted->name;
}

static int child_of(struct call_tree *tree, uint32_t parent, uint32_t name, enum frame_kind kind,
		    uint32_t *ret_node)
{
	struct node_key key = { .parent = parent, .name = name };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t node = hash_table_find(&tree->index, hash, node_equal, tree, &key);

	if (node == HASH_TABLE_NONE) {
		int rc = array_reserve(&tree->nodes, sizeof(*tree->nodes), &tree->node_capacity,
				       tree->node_count, 1, CALL_NODES_MAX);

		node = tree->node_count;
		if (rc == 0)
			rc = hash_table_add(&tree->index, hash, node);
		if (rc < 0)
			return rc;
		tree->nodes[tree->node_count++] =
			(struct call_node){ .parent = parent, .name = name, .kind = kind };
	}
	*ret_node = node;
	return 0;
}

static int child_called(struct call_tree *tree, uint32_t parent, const char *text,
			uint32_t *ret_node)
{
	uint32_t name;
	int rc = string_table_add(&tree->names, text, strlen(text), &name);

	return rc < 0 ? rc : child_of(tree, parent, name, FRAME_KIND_UNKNOWN, ret_node);
}

// ---- from samples to nodes --------------------------------------------------------------------

static int process_node(struct growth *growth, uint32_t series, uint32_t *ret_node)
{
	if (growth->process_nodes[series]) {
		*ret_node = growth->process_nodes[series];
		return 0;
	}

	char name[LABEL_VALUE_BYTES_MAX + 1];
	const char *process = labels_get(&growth->profile->series[series].labels, LABEL_PROCESS);
	snprintf(name, sizeof(name), "%s", process ? process : "[unknown process]");
	frame_name_clean(name);
	int rc = child_called(growth->tree, 0, name, ret_node);
	if (rc == 0)
		growth->process_nodes[series] = *ret_node;
	return rc;
}

static int truncated_node(struct call_tree *tree, uint32_t parent, enum stack_end end,
			  uint32_t *ret_node)
{
	char name[64];

	snprintf(name, sizeof(name), "[truncated: %s]", stack_end_name(end));
	return child_called(tree, parent, name, ret_node);
}

// The name of one line of a location, formatted once.
static int line_name(struct growth *growth, uint32_t location_number, uint32_t line,
		     uint32_t *ret_name)
{
	const struct location *location = &growth->profile->locations[location_number];
	uint32_t *known = location->line_count > 0
				  ? &growth->line_names[location->first_line + line]
				  : &growth->location_names[location_number];

	if (!*known) {
		char name[STRING_BYTES_MAX];

		location_display_name(growth->profile, location, line, name, sizeof(name));
		int rc = string_table_add(&growth->tree->names, name, strlen(name), known);
		if (rc < 0)
			return rc;
	}
	*ret_name = *known;
	return 0;
}

// Follow one location's frames up from @node: the outermost line first.
static int climb_location(struct growth *growth, uint32_t location_number, uint32_t *node)
{
	const struct location *location = &growth->profile->locations[location_number];
	uint32_t line = location->line_count > 0 ? location->line_count : 1;
	int rc = 0;

	while (rc == 0 && line-- > 0) {
		uint32_t name;

		rc = line_name(growth, location_number, line, &name);
		if (rc == 0)
			rc = child_of(growth->tree, *node, name, location->kind, node);
	}
	return rc;
}

static int climb_stack(struct growth *growth, const struct stack *stack, uint32_t process,
		       uint32_t *ret_node)
{
	const uint32_t *locations = growth->profile->stack_locations + stack->first_location;
	enum stack_end end = stack->defined ? stack->end : STACK_END_LOST;
	uint32_t node = process;
	int rc = 0;

	if (end != STACK_END_COMPLETE)
		rc = truncated_node(growth->tree, node, end, &node);
	for (uint32_t i = stack->location_count; rc == 0 && i-- > 0;)
		rc = climb_location(growth, locations[i], &node);
	if (rc == 0)
		*ret_node = node;
	return rc;
}

static int add_sample(struct growth *growth, const struct sample *sample)
{
	struct leaf *leaf = &growth->leaves[sample->stack];
	uint32_t process;
	int rc = process_node(growth, sample->series, &process);

	if (rc == 0 && leaf->process != process) {
		rc = climb_stack(growth, &growth->profile->stacks[sample->stack], process,
				 &leaf->node);
		leaf->process = rc == 0 ? process : 0;
	}
	if (rc < 0)
		return rc;

	struct call_node *node = &growth->tree->nodes[leaf->node];
	node->self = add_saturating(node->self, sample->value);
	return 0;
}

static int add_samples(struct growth *growth, const char *type)
{
	const struct profile *profile = growth->profile;
	uint32_t type_number = string_table_find(&profile->strings, type);

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (profile->series[sample->series].type != type_number)
			continue;
		int rc = add_sample(growth, sample);
		if (rc < 0)
			return rc;
	}
	return 0;
}

// ---- totals and order -------------------------------------------------------------------------

// Children come after their parents, so one sweep backwards is enough.
static void sum_totals(struct call_tree *tree)
{
	for (uint32_t i = tree->node_count; i-- > 0;) {
		struct call_node *node = &tree->nodes[i];

		node->total = add_saturating(node->total, node->self);
		if (i > 0) {
			struct call_node *parent = &tree->nodes[node->parent];

			parent->total = add_saturating(parent->total, node->total);
		}
	}
}

static int compare_names(const void *a, const void *b, void *context)
{
	const struct string_table *names = context;

	return strcmp(string_table_get(names, *(const uint32_t *)a),
		      string_table_get(names, *(const uint32_t *)b));
}

// Nodes are many and names are few, so only names are sorted.
static int sort_names(struct call_tree *tree, uint32_t **ret_order)
{
	_cleanup_free_ uint32_t *order = calloc(tree->names.count, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->names.count; i++)
		order[i] = i;
	qsort_r(order, tree->names.count, sizeof(*order), compare_names, &tree->names);
	*ret_order = take(order);
	return 0;
}

static void push_child(struct call_tree *tree, uint32_t node)
{
	struct call_node *parent = &tree->nodes[tree->nodes[node].parent];

	tree->nodes[node].next_sibling = parent->first_child;
	parent->first_child = node;
}

// Pushed to the front of their parents' lists from the last name to the first, children stand in
// order. Until then, next_sibling chains the nodes of one name.
static int link_children(struct call_tree *tree)
{
	_cleanup_free_ uint32_t *order = NULL;
	_cleanup_free_ uint32_t *first_of = calloc(tree->names.count, sizeof(*first_of));
	int rc = sort_names(tree, &order);

	if (!first_of || rc < 0)
		return -ENOMEM;
	for (uint32_t node = 1; node < tree->node_count; node++) { // the root is nobody's child
		tree->nodes[node].next_sibling = first_of[tree->nodes[node].name];
		first_of[tree->nodes[node].name] = node;
	}
	for (uint32_t i = tree->names.count; i-- > 0;) {
		for (uint32_t node = first_of[order[i]], next; node; node = next) {
			next = tree->nodes[node].next_sibling;
			push_child(tree, node);
		}
	}
	return 0;
}

int call_tree_init(struct call_tree *ret_tree, const struct profile *profile, const char *type)
{
	_cleanup_(call_tree_deinit) struct call_tree tree = { 0 };
	_cleanup_(growth_deinit) struct growth growth = { .tree = &tree, .profile = profile };
	int rc = string_table_init(&tree.names);

	if (rc == 0)
		rc = array_reserve(&tree.nodes, sizeof(*tree.nodes), &tree.node_capacity,
				   tree.node_count, 1, CALL_NODES_MAX);
	if (rc < 0)
		return rc;
	tree.nodes[tree.node_count++] = (struct call_node){ 0 };

	rc = growth_init(&growth);
	if (rc == 0)
		rc = add_samples(&growth, type);
	if (rc == 0)
		rc = link_children(&tree);
	if (rc < 0)
		return rc;
	sum_totals(&tree);
	*ret_tree = tree;
	tree = (struct call_tree){ 0 };
	return 0;
}

void call_tree_deinit(struct call_tree *tree)
{
	string_table_deinit(&tree->names);
	hash_table_deinit(&tree->index);
	free(tree->nodes);
	*tree = (struct call_tree){ 0 };
}

const char *call_tree_name(const struct call_tree *tree, uint32_t node)
{
	return string_table_get(&tree->names, tree->nodes[node].name);
}

uint32_t call_tree_next(const struct call_tree *tree, uint32_t node, uint32_t *depth)
{
	if (tree->nodes[node].first_child) {
		++*depth;
		return tree->nodes[node].first_child;
	}
	while (node && !tree->nodes[node].next_sibling) {
		node = tree->nodes[node].parent;
		--*depth;
	}
	return node ? tree->nodes[node].next_sibling : 0;
}
