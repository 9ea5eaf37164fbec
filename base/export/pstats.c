// SPDX-License-Identifier: Apache-2.0
// Python's Lib/pstats.py reads {(file, line, name): (calls, calls without recursion, self s, total s, callers)};
// callers is {(file, line, name): (the same four of these calls)}. Its Python/marshal.c reads the bytes; the codes
// here are those of every version 3.
#include "base/export/pstats.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/profile_type.h"
#include "base/export/call_graph.h"
#include "base/saturating.h"

enum marshal_code {
	MARSHAL_END = '0', // of a dict
	MARSHAL_INT = 'i',
	MARSHAL_FLOAT = 'g',
	MARSHAL_TUPLE = '(',
	MARSHAL_STRING = 'u',
	MARSHAL_DICT = '{',
};

static void append_little(struct buffer *buffer, uint64_t value, uint32_t bytes)
{
	for (; bytes > 0; bytes--, value >>= 8)
		buffer_append_byte(buffer, (uint8_t)value);
}

static void append_int(struct buffer *buffer, enum marshal_code code, uint32_t value)
{
	buffer_append_byte(buffer, (uint8_t)code);
	append_little(buffer, value, 4);
}

static void append_seconds(struct buffer *buffer, int64_t ns)
{
	double seconds = (double)ns / NS_PER_SECOND;
	uint64_t bits;

	memcpy(&bits, &seconds, sizeof(bits));
	buffer_append_byte(buffer, MARSHAL_FLOAT);
	append_little(buffer, bits, 8);
}

static void append_string(struct buffer *buffer, const char *text)
{
	append_int(buffer, MARSHAL_STRING, (uint32_t)strlen(text));
	buffer_append_string(buffer, text);
}

/** "~" stands for no file, as cProfile writes it for built-in functions. */
static void append_function(struct buffer *buffer, const struct named_stacks *stacks,
			    uint32_t function)
{
	const char *file = named_function_file(stacks, function);

	append_int(buffer, MARSHAL_TUPLE, 3);
	append_string(buffer, *file ? file : "~");
	append_int(buffer, MARSHAL_INT, 0);
	append_string(buffer, named_function_name(stacks, function));
}

static void append_times(struct buffer *buffer, uint32_t fields, int64_t self, int64_t total)
{
	append_int(buffer, MARSHAL_TUPLE, fields);
	append_int(buffer, MARSHAL_INT, 0);
	append_int(buffer, MARSHAL_INT, 0);
	append_seconds(buffer, self);
	append_seconds(buffer, total);
}

static int compare_callees(const void *a, const void *b)
{
	const struct call_edge *x = a, *y = b;

	if (x->callee != y->callee)
		return x->callee < y->callee ? -1 : 1;
	return (x->caller > y->caller) - (x->caller < y->caller);
}

/** Append the callers of @function, whose edges begin at @edge; lines do not tell them apart. Returns the next edge. */
static uint32_t append_callers(struct buffer *buffer, const struct call_graph *graph,
			       uint32_t function, uint32_t edge)
{
	buffer_append_byte(buffer, MARSHAL_DICT);
	while (edge < graph->edge_count && graph->edges[edge].callee == function) {
		uint32_t caller = graph->edges[edge].caller;
		int64_t self = 0, total = 0;

		for (; edge < graph->edge_count && graph->edges[edge].callee == function &&
		       graph->edges[edge].caller == caller;
		     edge++) {
			self = add_saturating(self, graph->edges[edge].self);
			total = add_saturating(total, graph->edges[edge].total);
		}
		append_function(buffer, &graph->stacks, caller);
		append_times(buffer, 4, self, total);
	}
	buffer_append_byte(buffer, MARSHAL_END);
	return edge;
}

int pstats_encode(const struct profile *profile, const char *type, struct buffer *buffer)
{
	_cleanup_(call_graph_deinit) struct call_graph graph = { 0 };
	struct profile_type parts;
	uint32_t edge = 0;
	int rc = profile_type_parse(type, &parts, NULL);

	if (!rc && strcmp(parts.sample_unit, "nanoseconds") != 0)
		rc = -EINVAL;
	if (!rc)
		rc = call_graph_init(&graph, profile, type);
	if (rc)
		return rc;
	if (graph.edge_count)
		qsort(graph.edges, graph.edge_count, sizeof(*graph.edges), compare_callees);

	buffer_append_byte(buffer, MARSHAL_DICT);
	for (uint32_t i = 0; i < graph.stacks.function_count; i++) {
		append_function(buffer, &graph.stacks, i);
		append_times(buffer, 5, graph.functions[i].self, graph.functions[i].total);
		edge = append_callers(buffer, &graph, i, edge);
	}
	buffer_append_byte(buffer, MARSHAL_END);
	return buffer->rc;
}
