// SPDX-License-Identifier: Apache-2.0
// Trees in JSON: their nodes as columns.
#pragma once

#include "base/buffer.h"
#include "base/json_text.h"
#include "collector/query/query.h"

/** Append one column of the nodes, an integer made of `node`. */
#define TREE_JSON_COLUMN(body, tree, title, expression)                     \
	do {                                                                \
		buffer_append_string(body, title ":[");                     \
		for (uint32_t i_ = 0; i_ < (tree)->node_count; i_++) {      \
			const struct flame_node *node = &(tree)->nodes[i_]; \
			if (i_)                                             \
				buffer_append_byte(body, ',');              \
			json_append_int(body, (int64_t)(expression));       \
		}                                                           \
		buffer_append_byte(body, ']');                              \
	} while (0)

/** ,"kinds":[..]: the names of enum frame_kind. */
void tree_json_append_kinds(struct buffer *body);
/** ,"kinds":[..],"names":[..] */
void tree_json_append_names(struct buffer *body, const struct string_table *strings);
/** "parent":[..],"name":[..],"module":[..],"kind":[..] */
void tree_json_append_frames(struct buffer *body, const struct flame_tree *tree);
