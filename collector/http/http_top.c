// SPDX-License-Identifier: Apache-2.0
// Answers with the table of functions, one in all or one per group.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "collector/http/tree_json.h"

static void append_row(struct buffer *body, const struct flame_tree *tree,
		       const struct top_row *row)
{
	buffer_append_string(body, "{\"name\":");
	json_append_string(body, string_table_get(&tree->strings, row->name));
	buffer_append_string(body, ",\"module\":");
	json_append_string(body, string_table_get(&tree->strings, row->module));
	buffer_append_string(body, ",\"kind\":");
	json_append_string(
		body,
		frame_kind_name(row->kind < FRAME_KIND_COUNT ? row->kind : FRAME_KIND_UNKNOWN));
	buffer_append_string(body, ",\"self\":");
	json_append_int(body, row->self);
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, row->total);
	buffer_append_string(body, ",\"ran\":[");
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++) {
		if (kind)
			buffer_append_byte(body, ',');
		json_append_int(body, row->ran[kind]);
	}
	buffer_append_string(body, "]}");
}

/** Append "total":..,"function_count":..,"rows":[..] of the functions below @root. */
static int append_table(struct buffer *body, const struct flame_tree *tree, struct top_table *table,
			uint32_t root, uint32_t limit, struct error *err)
{
	const struct top_row *rows;
	uint32_t count;

	int rc = top_table_read(table, root, &rows, &count, err);
	if (rc)
		return rc;

	buffer_append_string(body, "\"total\":");
	json_append_int(body, tree->nodes[root].total);
	buffer_append_string(body, ",\"function_count\":");
	json_append_uint(body, count);
	buffer_append_string(body, ",\"rows\":[");
	for (uint32_t i = 0; i < count && i < limit; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_row(body, tree, &rows[i]);
	}
	buffer_append_byte(body, ']');
	return 0;
}

/** A group's node; groups are sorted by falling total. */
struct group_node {
	uint32_t node;
	int64_t total;
};

static int compare_groups(const void *a, const void *b)
{
	const struct group_node *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

static int append_groups(struct buffer *body, const struct flame_tree *tree,
			 struct top_table *table, uint32_t limit, struct error *err)
{
	_cleanup_free_ struct group_node *groups = calloc(tree->node_count, sizeof(*groups));
	uint32_t count = 0;

	if (!groups)
		return error_set(err, -ENOMEM, "out of memory for the groups");
	for (uint32_t node = 1; node < tree->node_count; node++) {
		if (tree->nodes[node].parent == 0)
			groups[count++] = (struct group_node){ node, tree->nodes[node].total };
	}
	qsort(groups, count, sizeof(*groups), compare_groups);

	buffer_append_string(body, "\"groups\":[");
	for (uint32_t i = 0; i < count && i < QUERY_GROUPS_MAX; i++) {
		uint32_t name = tree->nodes[groups[i].node].name;

		buffer_append_string(body, i ? ",{\"group\":" : "{\"group\":");
		json_append_string(body, string_table_get(&tree->strings, name));
		buffer_append_byte(body, ',');
		int rc = append_table(body, tree, table, groups[i].node, limit, err);
		if (rc)
			return rc;
		buffer_append_byte(body, '}');
	}
	buffer_append_string(body, "],\"group_count\":");
	json_append_uint(body, count);
	return 0;
}

void http_handle_top(struct http_api *api, const struct api_request *request,
		     struct http_response *response)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	_cleanup_(top_table_freep) struct top_table *table = NULL;
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	int rc = query_flame_tree(&query, &tree, &err);
	if (!rc) {
		table = top_table_new(&tree);
		rc = table ? 0 : error_set(&err, -ENOMEM, "out of memory for the table");
	}
	if (rc) {
		http_respond_failure(response, &err, api_failed_field(request));
		return;
	}

	buffer_append_byte(body, '{');
	api_append_type(body, request);
	tree_json_append_kinds(body);
	buffer_append_byte(body, ',');
	rc = request->group_by ? append_groups(body, &tree, table, request->limit, &err)
			       : append_table(body, &tree, table, 0, request->limit, &err);
	buffer_append_string(body, "}\n");
	if (rc)
		http_respond_failure(response, &err, api_failed_field(request));
}
