// SPDX-License-Identifier: Apache-2.0
// Names are written once, "(7) name", and then by number, "(7)".
#include "base/export/callgrind.h"

#include <ctype.h>
#include <inttypes.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/profile_type.h"
#include "base/export/call_graph.h"
#include "base/version.h"

struct writer {
	const struct call_graph *graph;
	struct buffer *buffer;
	uint8_t *paths_written; // by string, of objects and then of files: they are numbered apart
	uint8_t *functions_written;
};

static void writer_deinit(struct writer *writer)
{
	free(writer->paths_written);
	free(writer->functions_written);
}

/** "fl=(3) /srv/app.py": key and name, or key and number. What is unknown is "???", as Valgrind has it. */
static void append_path(struct writer *writer, const char *key, bool is_object, uint32_t string)
{
	uint8_t *is_written = &writer->paths_written[2 * (size_t)string + is_object];
	const char *path = string_table_get(&writer->graph->stacks.strings, string);

	buffer_printf(writer->buffer, "%s=(%u)", key, string + 1);
	if (!*is_written) {
		buffer_append_byte(writer->buffer, ' ');
		// A line's end must not come from a path.
		for (const char *at = *path ? path : "???"; *at; at++)
			buffer_append_byte(writer->buffer,
					   (unsigned char)*at < ' ' ? '?' : (uint8_t)*at);
	}
	*is_written = 1;
	buffer_append_byte(writer->buffer, '\n');
}

/** The object (@ob) and the source file (@fl) of a function, of which only one is known. */
static void append_place(struct writer *writer, const char *ob, const char *fl, uint32_t number)
{
	const struct named_function *function = &writer->graph->stacks.functions[number];

	append_path(writer, ob, true, function->is_module ? function->file : 0);
	append_path(writer, fl, false, function->is_module ? 0 : function->file);
}

static void append_function(struct writer *writer, const char *key, uint32_t function)
{
	buffer_printf(writer->buffer, "%s=(%u)", key, function + 1);
	if (!writer->functions_written[function]) {
		buffer_append_byte(writer->buffer, ' ');
		buffer_append_string(writer->buffer,
				     named_function_name(&writer->graph->stacks, function));
	}
	writer->functions_written[function] = 1;
	buffer_append_byte(writer->buffer, '\n');
}

static void append_edge(struct writer *writer, const struct call_edge *edge)
{
	append_place(writer, "cob", "cfi", edge->callee);
	append_function(writer, "cfn", edge->callee);
	buffer_printf(writer->buffer, "calls=1 0\n%u %" PRId64 "\n", edge->line, edge->total);
}

/** Functions in order, each with its lines and edges, which are sorted by function. */
static void append_functions(struct writer *writer)
{
	const struct call_graph *graph = writer->graph;
	uint32_t line = 0, edge = 0;

	for (uint32_t i = 0; i < graph->stacks.function_count; i++) {
		buffer_append_byte(writer->buffer, '\n');
		append_place(writer, "ob", "fl", i);
		append_function(writer, "fn", i);
		for (; line < graph->line_count && graph->lines[line].function == i; line++)
			buffer_printf(writer->buffer, "%u %" PRId64 "\n", graph->lines[line].line,
				      graph->lines[line].self);
		for (; edge < graph->edge_count && graph->edges[edge].caller == i; edge++)
			append_edge(writer, &graph->edges[edge]);
	}
}

/** An event's name is one word. */
static void append_event(struct buffer *buffer, const char *part)
{
	for (; *part; part++)
		buffer_append_byte(buffer, isalnum((unsigned char)*part) ? (uint8_t)*part : '_');
}

static void append_head(struct buffer *buffer, const struct profile_type *parts, int64_t total)
{
	buffer_printf(buffer,
		      "# callgrind format\nversion: 1\ncreator: cairn %s\n"
		      "desc: Calls: sampled, not counted\npositions: line\nevents: ",
		      CAIRN_VERSION);
	append_event(buffer, parts->sample_type);
	buffer_append_byte(buffer, '_');
	append_event(buffer, parts->sample_unit);
	buffer_printf(buffer, "\nsummary: %" PRId64 "\n", total);
}

int callgrind_encode(const struct profile *profile, const char *type, struct buffer *buffer)
{
	_cleanup_(call_graph_deinit) struct call_graph graph = { 0 };
	_cleanup_(writer_deinit) struct writer writer = { .graph = &graph, .buffer = buffer };
	struct profile_type parts;
	int rc = profile_type_parse(type, &parts, NULL);

	if (!rc)
		rc = call_graph_init(&graph, profile, type);
	if (!rc)
		rc = array_allocate(&writer.paths_written, graph.stacks.strings.count, 2);
	if (!rc)
		rc = array_allocate(&writer.functions_written, graph.stacks.function_count, 1);
	if (rc)
		return rc;

	append_head(buffer, &parts, graph.total);
	append_functions(&writer);
	buffer_printf(buffer, "\ntotals: %" PRId64 "\n", graph.total);
	return buffer->rc;
}
