// SPDX-License-Identifier: Apache-2.0
#include "collector/pyroscope/flame_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/saturating.h"

/** Nodes asked for: 0 means the default, and more than the limit means the limit. */
static uint32_t nodes_of(int64_t max_nodes)
{
	if (max_nodes <= 0)
		return FLAMEBEARER_NODES_DEFAULT;
	return max_nodes < FLAMEBEARER_NODES_MAX ? (uint32_t)max_nodes : FLAMEBEARER_NODES_MAX;
}

static int out_of_memory(int rc, struct error *err)
{
	return rc == -E2BIG
		       ? error_set(err, rc,
				   "the flame graph has too many nodes; choose a shorter range "
				   "or fewer series")
		       : error_set(err, rc, "out of memory for the flame graph");
}

/** How far a node's path agrees with the call site: so many frames; all of them or more: it is within. */
static uint32_t *match_call_site(const struct flame_tree *tree,
				 const Querier__V1__StackTraceSelector *selector)
{
	uint32_t *matched = calloc(tree->node_count, sizeof(*matched));
	uint32_t all = (uint32_t)selector->n_call_site;

	for (uint32_t i = 1; matched && i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];
		uint32_t parent = matched[node->parent];
		bool is_next =
			parent < all && strcmp(selector->call_site[parent]->name,
					       string_table_get(&tree->strings, node->name)) == 0;

		matched[i] = parent >= all ? all : is_next ? parent + 1 : UINT32_MAX;
		if (parent == UINT32_MAX)
			matched[i] = UINT32_MAX;
	}
	return matched;
}

/** Leave the stacks that begin with the selector's frames. */
static int keep_call_site(struct flame_tree *tree, const Querier__V1__StackTraceSelector *selector)
{
	if (!selector || !selector->n_call_site)
		return 0;

	_cleanup_free_ uint32_t *matched = match_call_site(tree, selector);
	if (!matched)
		return -ENOMEM;
	for (uint32_t i = 0; i < tree->node_count; i++) {
		struct flame_node *node = &tree->nodes[i];

		if (matched[i] != selector->n_call_site)
			node->self = 0;
		node->total = node->self;
	}
	for (uint32_t i = tree->node_count; i-- > 1;) {
		struct flame_node *parent = &tree->nodes[tree->nodes[i].parent];

		parent->total = add_saturating(parent->total, tree->nodes[i].total);
	}
	return 0;
}

/** At most @nodes_max nodes of it: totals stay exact, so that the rest is in "other". */
static int read_tree(const struct querier_call *call,
		     const Querier__V1__SelectMergeStacktracesRequest *request, uint32_t nodes_max,
		     struct flame_tree *ret_tree, struct error *err)
{
	struct querier_query query;
	int64_t cut;
	int rc = querier_query_init(&query, call, request->profile_typeid, request->label_selector,
				    request->start, request->end, err);

	if (!rc)
		rc = query_flame_tree(&query.query, ret_tree, err);
	if (!rc && (keep_call_site(ret_tree, request->stack_trace_selector) ||
		    flame_tree_truncate(ret_tree, nodes_max, &cut)))
		rc = out_of_memory(-ENOMEM, err);
	querier_query_deinit(&query);
	return rc;
}

int pyroscope_flame_graph(const struct querier_call *call,
			  const Querier__V1__SelectMergeStacktracesRequest *request,
			  struct flamebearer *ret_bearer, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	int rc = read_tree(call, request, nodes_of(request->max_nodes), &tree, err);

	if (rc)
		return rc;
	rc = flamebearer_init(ret_bearer, &tree, NULL, nodes_of(request->max_nodes));
	return rc ? out_of_memory(rc, err) : 0;
}

int pyroscope_flame_graph_diff(const struct querier_call *call,
			       const Querier__V1__SelectMergeStacktracesRequest *left,
			       const Querier__V1__SelectMergeStacktracesRequest *right,
			       struct flamebearer *ret_bearer, struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree left_tree = { 0 }, right_tree = { 0 };
	int64_t nodes = left->max_nodes > right->max_nodes ? left->max_nodes : right->max_nodes;
	// What one side lacks the other may have: only trees that are too large lose their smallest nodes here.
	int rc = read_tree(call, left, QUERY_NODES_MAX, &left_tree, err);

	if (!rc)
		rc = read_tree(call, right, QUERY_NODES_MAX, &right_tree, err);
	if (rc)
		return rc;
	rc = flamebearer_init(ret_bearer, &left_tree, &right_tree, nodes_of(nodes));
	return rc ? out_of_memory(rc, err) : 0;
}
