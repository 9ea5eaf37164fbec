// SPDX-License-Identifier: Apache-2.0
#include "cli/top_tables.h"
#include "cli/printable_text.h"

#include <errno.h>
#include <string.h>

static const char *const names[TOP_SHOWN_COUNT] = {
	[TOP_FUNCTIONS] = "functions",
	[TOP_CALLS] = "calls",
	[TOP_THREADS] = "threads",
};

const char *top_shown_name(enum top_shown shown)
{
	return names[shown];
}

int top_shown_find(const char *name, enum top_shown *ret_shown, struct error *err)
{
	for (int i = 0; i < TOP_SHOWN_COUNT; i++) {
		if (strcmp(names[i], name) == 0) {
			*ret_shown = (enum top_shown)i;
			return 0;
		}
	}
	return error_set(err, -EINVAL, "--show: \"%.40s\" is not functions, calls or threads",
			 name);
}

int top_tables_build(const struct profile *profile, const struct top_choice *choice,
		     const char *type, struct top_tables *ret_tables, struct error *err)
{
	const struct function_choice functions = { .type = type, .by_process = choice->by_process };

	*ret_tables = (struct top_tables){ .shown = choice->shown };
	switch (choice->shown) {
	case TOP_CALLS:
		return call_lines_build(profile, type, choice->by_process, choice->direction,
					choice->function, &ret_tables->calls, err);
	case TOP_THREADS:
		return thread_table_build(profile, type, &ret_tables->threads, err);
	default:
		return function_table_build(profile, &functions, &ret_tables->functions, err);
	}
}

void top_tables_deinit(struct top_tables *tables)
{
	function_table_deinit(&tables->functions);
	call_lines_deinit(&tables->calls);
	thread_table_deinit(&tables->threads);
}

int top_tables_select(struct top_tables *tables, const char *filter, enum function_order order,
		      const struct call_toggles *toggles)
{
	switch (tables->shown) {
	case TOP_CALLS:
		return call_lines_select(&tables->calls, toggles, filter);
	case TOP_THREADS:
		return thread_table_select(&tables->threads, filter);
	default:
		return function_table_select(&tables->functions, filter, order);
	}
}

uint32_t top_tables_count(const struct top_tables *tables)
{
	switch (tables->shown) {
	case TOP_CALLS:
		return tables->calls.line_count;
	case TOP_THREADS:
		return tables->threads.shown_count;
	default:
		return tables->functions.shown_count;
	}
}

int64_t top_tables_total(const struct top_tables *tables)
{
	return tables->functions.total + tables->calls.total + tables->threads.total;
}

void top_tables_print(const struct top_tables *tables, uint32_t rows_max, FILE *stream)
{
	switch (tables->shown) {
	case TOP_CALLS:
		call_lines_print(&tables->calls, rows_max, stream);
		break;
	case TOP_THREADS:
		thread_table_print(&tables->threads, rows_max, stream);
		break;
	default:
		function_table_print(&tables->functions, rows_max, stream);
	}
}

/* ---- JSON: values in the profile type's unit ---- */

static void add_parts(json_t *row, const int64_t *parts)
{
	for (int part = 0; part < TIME_PART_COUNT; part++)
		json_object_set_new(row, time_part_key((enum time_part)part),
				    json_integer(parts[part]));
}

static json_t *function_json(const struct function_table *table, uint32_t number)
{
	const struct function_row *row = &table->rows[table->shown[number]];
	const char *process = string_table_get(&table->strings, row->process);
	json_t *object = json_pack("{s:s, s:s, s:I, s:I}", "function",
				   string_table_get(&table->strings, row->name), "kind",
				   frame_kind_name(row->kind), "self", (json_int_t)row->self,
				   "total", (json_int_t)row->total);

	if (object && *process)
		json_object_set_new(object, "process", json_string(process));
	if (object && table->has_parts)
		add_parts(object, row->parts);
	return object;
}

static json_t *thread_json(const struct thread_table *table, uint32_t number)
{
	const struct thread_row *row = &table->rows[table->shown[number]];
	json_t *object = json_pack("{s:s, s:s, s:I}", "process",
				   string_table_get(&table->strings, row->process), "thread",
				   string_table_get(&table->strings, row->thread), "total",
				   (json_int_t)row->total);

	if (object && table->has_parts)
		add_parts(object, row->parts);
	return object;
}

/* How many calls are above it. */
static uint32_t depth_of(const struct call_lines *lines, uint32_t number)
{
	uint32_t depth = 0;

	while (lines->nodes[number].parent) {
		number = lines->nodes[number].parent;
		depth++;
	}
	return depth;
}

static json_t *call_json(const struct call_lines *lines, uint32_t number)
{
	uint32_t node_number = lines->lines[number].node;
	const struct shown_call *node = &lines->nodes[node_number];
	char name[FUNCTION_NAME_BYTES];

	call_lines_name(lines, node_number, name, sizeof(name));
	return json_pack("{s:s, s:s, s:I, s:I, s:I}", node->is_process ? "process" : "function",
			 name, "kind", node->is_process ? "process" : frame_kind_name(node->kind),
			 "depth", (json_int_t)depth_of(lines, node_number), "self",
			 (json_int_t)node->self, "total", (json_int_t)node->total);
}

json_t *top_tables_json(const struct top_tables *tables, uint32_t rows_max)
{
	uint32_t count = top_tables_count(tables);
	json_t *rows = json_array();

	if (rows_max && count > rows_max)
		count = rows_max;
	for (uint32_t i = 0; rows && i < count; i++) {
		json_t *row = tables->shown == TOP_CALLS     ? call_json(&tables->calls, i)
			      : tables->shown == TOP_THREADS ? thread_json(&tables->threads, i)
							     : function_json(&tables->functions, i);

		if (json_array_append_new(rows, row)) {
			json_decref(rows);
			rows = NULL;
		}
	}
	return rows;
}
