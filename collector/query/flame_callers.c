// SPDX-License-Identifier: Apache-2.0
// One function's callers and callees, out of a whole tree: each stack counts once, at the function's outermost call.
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "collector/query/query.h"
#include "collector/query/tree_builder.h"

#define OUTSIDE UINT32_MAX // of every call of the function

/** A tree that is made of nodes of another one. */
struct growth {
	const struct flame_tree *from;
	struct flame_tree tree;
	struct tree_builder builder;
	uint32_t *numbers; // by string of @from: its number here, 0: not yet
};

static void growth_deinit(struct growth *growth)
{
	tree_builder_deinit(&growth->builder);
	flame_tree_deinit(&growth->tree);
	free(growth->numbers);
}

static int intern(struct growth *growth, uint32_t string, uint32_t *ret_number)
{
	int rc = growth->numbers[string] || !string
			 ? 0
			 : tree_builder_string(&growth->builder,
					       string_table_get(&growth->from->strings, string),
					       &growth->numbers[string]);

	*ret_number = growth->numbers[string];
	return rc;
}

static int level_of(struct growth *growth, const struct flame_node *node, struct level *ret_level)
{
	int rc = intern(growth, node->name, &ret_level->name);

	ret_level->kind = node->kind;
	return rc ? rc : intern(growth, node->module, &ret_level->module);
}

/** Find or add the child of @parent that is as @like, a node of the tree that this one is made of. */
static int find_child(struct growth *growth, uint32_t parent, const struct flame_node *like,
		      uint32_t *ret_node)
{
	struct level level;
	int rc = level_of(growth, like, &level);

	return rc ? rc : tree_builder_child(&growth->builder, parent, &level, ret_node);
}

static void add_value(int64_t *sum, int64_t value)
{
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value); // wraps instead of being undefined
}

/** Add the callers of @call, an outermost call: the innermost first, the root left out. */
static int add_callers(struct growth *growth, uint32_t call)
{
	const struct flame_node *nodes = growth->from->nodes;
	uint32_t at = 0;
	int rc = 0;

	add_value(&growth->tree.nodes[0].total, nodes[call].total);
	for (uint32_t caller = nodes[call].parent; caller && !rc; caller = nodes[caller].parent) {
		rc = find_child(growth, at, &nodes[caller], &at);
		if (!rc)
			add_value(&growth->tree.nodes[at].total, nodes[call].total);
	}
	if (!rc)
		add_value(&growth->tree.nodes[at].self, nodes[call].total);
	return rc;
}

static int grow(struct growth *callers, struct growth *callees, uint32_t function,
		struct deadline *deadline, struct error *err)
{
	const struct flame_tree *from = callees->from;
	_cleanup_free_ uint32_t *place = malloc(from->node_count * sizeof(*place));
	int rc = place ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < from->node_count && !rc; i++) {
		const struct flame_node *node = &from->nodes[i];
		bool is_inside = i && place[node->parent] != OUTSIDE;

		place[i] = OUTSIDE;
		if (is_inside) {
			rc = find_child(callees, place[node->parent], node, &place[i]);
		} else if (i && node->name == function) {
			place[i] = 0;
			rc = deadline_check(deadline, err);
			if (!rc)
				rc = add_callers(callers, i);
		}
		if (rc || place[i] == OUTSIDE)
			continue;
		add_value(&callees->tree.nodes[place[i]].self, node->self);
		add_value(&callees->tree.nodes[place[i]].total, node->total);
	}
	return rc;
}

/** The root is the first node of @from called @function; "total" where there is none. */
static int growth_init(struct growth *growth, const struct flame_tree *from, uint32_t function,
		       struct error *err)
{
	uint32_t at = 1;
	struct level level;
	int rc =
		tree_builder_init(&growth->builder, &growth->tree, QUERY_TREE_NODES_MAX, NULL, err);

	growth->from = from;
	growth->numbers = calloc(from->strings.count + 1ULL, sizeof(*growth->numbers));
	if (rc || !growth->numbers)
		return rc ? rc : -ENOMEM;
	while (at < from->node_count && from->nodes[at].name != function)
		at++;
	rc = at < from->node_count ? level_of(growth, &from->nodes[at], &level) : 0;
	if (!rc && at < from->node_count) {
		growth->tree.nodes[0].name = level.name;
		growth->tree.nodes[0].module = level.module;
		growth->tree.nodes[0].kind = level.kind;
	}
	return rc;
}

int flame_tree_callers(const struct flame_tree *tree, const char *function,
		       struct deadline *deadline, struct flame_tree *ret_callers,
		       struct flame_tree *ret_callees, struct error *err)
{
	_cleanup_(growth_deinit) struct growth callers = { 0 }, callees = { 0 };
	uint32_t name = string_table_find(&tree->strings, function);
	int rc = growth_init(&callers, tree, name, err);

	if (!rc)
		rc = growth_init(&callees, tree, name, err);
	if (!rc && name != HASH_TABLE_NONE)
		rc = grow(&callers, &callees, name, deadline, err);
	if (rc)
		return err->code ? rc : error_set(err, rc, "out of memory for callers and callees");
	callers.tree.series_count = callees.tree.series_count = tree->series_count;
	*ret_callers = callers.tree;
	*ret_callees = callees.tree;
	callers.tree = callees.tree = (struct flame_tree){ 0 };
	return 0;
}
