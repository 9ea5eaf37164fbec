// SPDX-License-Identifier: Apache-2.0
#include "base/export/call_graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/saturating.h"

void call_graph_deinit(struct call_graph *graph)
{
	named_stacks_deinit(&graph->stacks);
	hash_table_deinit(&graph->line_index);
	hash_table_deinit(&graph->edge_index);
	free(graph->functions);
	free(graph->lines);
	free(graph->edges);
	*graph = (struct call_graph){ 0 };
}

// ---- finding -------------------------------------------------------------------------------

static bool line_equal(const void *context, uint32_t item, const void *key)
{
	const struct call_graph *graph = context;
	const struct named_frame *wanted = key;

	return graph->lines[item].function == wanted->function &&
	       graph->lines[item].line == wanted->line;
}

static int find_line(struct call_graph *graph, const struct named_frame *frame,
		     struct call_line **ret_line)
{
	uint64_t hash = hash64_of(frame, sizeof(*frame));
	uint32_t at = hash_table_find(&graph->line_index, hash, line_equal, graph, frame);

	if (at == HASH_TABLE_NONE) {
		at = graph->line_count;
		int rc = array_reserve(&graph->lines, sizeof(*graph->lines), &graph->line_capacity,
				       at, 1, CALL_EDGES_MAX);
		if (!rc)
			rc = hash_table_add(&graph->line_index, hash, at);
		if (rc)
			return rc;
		graph->lines[graph->line_count++] =
			(struct call_line){ .function = frame->function, .line = frame->line };
	}
	*ret_line = &graph->lines[at];
	return 0;
}

struct edge_key {
	uint32_t caller, line, callee;
};

static bool edge_equal(const void *context, uint32_t item, const void *key)
{
	const struct call_graph *graph = context;
	const struct call_edge *edge = &graph->edges[item];
	const struct edge_key *wanted = key;

	return edge->caller == wanted->caller && edge->line == wanted->line &&
	       edge->callee == wanted->callee;
}

static int find_edge(struct call_graph *graph, const struct named_frame *caller, uint32_t callee,
		     struct call_edge **ret_edge)
{
	const struct edge_key key = { caller->function, caller->line, callee };
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t at = hash_table_find(&graph->edge_index, hash, edge_equal, graph, &key);

	if (at == HASH_TABLE_NONE) {
		at = graph->edge_count;
		int rc = array_reserve(&graph->edges, sizeof(*graph->edges), &graph->edge_capacity,
				       at, 1, CALL_EDGES_MAX);
		if (!rc)
			rc = hash_table_add(&graph->edge_index, hash, at);
		if (rc)
			return rc;
		graph->edges[graph->edge_count++] = (struct call_edge){
			.caller = key.caller,
			.line = key.line,
			.callee = key.callee,
		};
	}
	*ret_edge = &graph->edges[at];
	return 0;
}

// ---- adding up -----------------------------------------------------------------------------

/** Room for the functions that reading a stack has added. */
static int grow_functions(struct call_graph *graph)
{
	uint32_t before = graph->function_capacity, count = graph->stacks.function_count;

	if (count <= before)
		return 0;
	int rc = array_reserve(&graph->functions, sizeof(*graph->functions),
			       &graph->function_capacity, count, 0, NAMED_FUNCTIONS_MAX);
	if (!rc)
		memset(graph->functions + before, 0,
		       (graph->function_capacity - before) * sizeof(*graph->functions));
	return rc;
}

static void add_total(struct call_function *function, uint32_t stamp, int64_t value)
{
	if (function->stamp == stamp)
		return;
	function->stamp = stamp;
	function->total = add_saturating(function->total, value);
}

static int add_edge(struct call_graph *graph, const struct named_frame *caller,
		    const struct named_frame *callee, bool is_leaf, uint32_t stamp, int64_t value)
{
	struct call_edge *edge;

	if (caller->function == callee->function)
		return 0;
	int rc = find_edge(graph, caller, callee->function, &edge);
	if (rc)
		return rc;
	if (is_leaf)
		edge->self = add_saturating(edge->self, value);
	if (edge->stamp != stamp)
		edge->total = add_saturating(edge->total, value);
	edge->stamp = stamp;
	return 0;
}

/** @stamp: of this stack, not 0. */
static int add_stack(struct call_graph *graph, uint32_t stack, uint32_t stamp, int64_t value)
{
	struct call_line *line;
	int rc = named_stacks_read(&graph->stacks, stack);

	if (!rc)
		rc = grow_functions(graph);
	graph->total = add_saturating(graph->total, value);

	const struct named_frame *frames = graph->stacks.frames;
	uint32_t count = graph->stacks.frame_count;
	for (uint32_t i = 0; !rc && i < count; i++) {
		add_total(&graph->functions[frames[i].function], stamp, value);
		if (i)
			rc = add_edge(graph, &frames[i - 1], &frames[i], i + 1 == count, stamp,
				      value);
	}
	if (rc || !count)
		return rc;

	struct call_function *leaf = &graph->functions[frames[count - 1].function];
	leaf->self = add_saturating(leaf->self, value);
	rc = find_line(graph, &frames[count - 1], &line);
	if (!rc)
		line->self = add_saturating(line->self, value);
	return rc;
}

static int sum_stacks(const struct profile *profile, const char *type, int64_t **ret_values)
{
	uint32_t type_number = string_table_find(&profile->strings, type);
	int64_t *values;
	int rc = array_allocate(&values, profile->stack_count, sizeof(*values));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (profile->series[sample->series].type == type_number)
			values[sample->stack] =
				add_saturating(values[sample->stack], sample->value);
	}
	*ret_values = values;
	return 0;
}

static int compare_lines(const void *a, const void *b)
{
	const struct call_line *x = a, *y = b;

	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

static int compare_edges(const void *a, const void *b)
{
	const struct call_edge *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->callee > y->callee) - (x->callee < y->callee);
}

int call_graph_init(struct call_graph *ret_graph, const struct profile *profile, const char *type)
{
	_cleanup_(call_graph_deinit) struct call_graph graph = { 0 };
	_cleanup_free_ int64_t *values = NULL;
	int rc = named_stacks_init(&graph.stacks, profile);

	if (!rc)
		rc = sum_stacks(profile, type, &values);
	for (uint32_t i = 0; !rc && i < profile->stack_count; i++)
		if (values[i])
			rc = add_stack(&graph, i, i + 1, values[i]);
	if (rc)
		return rc;
	if (graph.line_count)
		qsort(graph.lines, graph.line_count, sizeof(*graph.lines), compare_lines);
	if (graph.edge_count)
		qsort(graph.edges, graph.edge_count, sizeof(*graph.edges), compare_edges);
	*ret_graph = graph;
	graph = (struct call_graph){ 0 };
	return 0;
}
