// SPDX-License-Identifier: Apache-2.0
#include "collector/http/tree_json.h"

void tree_json_append_kinds(struct buffer *body)
{
	buffer_append_string(body, ",\"kinds\":[");
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++) {
		if (kind)
			buffer_append_byte(body, ',');
		json_append_string(body, frame_kind_name((enum frame_kind)kind));
	}
	buffer_append_byte(body, ']');
}

static void append_strings(struct buffer *body, const struct string_table *strings)
{
	buffer_append_string(body, ",\"names\":[");
	for (uint32_t i = 0; i < strings->count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		json_append_string(body, string_table_get(strings, i));
	}
	buffer_append_byte(body, ']');
}

void tree_json_append_names(struct buffer *body, const struct string_table *strings)
{
	tree_json_append_kinds(body);
	append_strings(body, strings);
}

void tree_json_append_frames(struct buffer *body, const struct flame_tree *tree)
{
	TREE_JSON_COLUMN(body, tree, "\"parent\"", node->parent);
	TREE_JSON_COLUMN(body, tree, ",\"name\"", node->name);
	TREE_JSON_COLUMN(body, tree, ",\"module\"", node->module);
	TREE_JSON_COLUMN(body, tree, ",\"kind\"", node->kind < FRAME_KIND_COUNT ? node->kind : 0);
}
