// SPDX-License-Identifier: Apache-2.0
// A call tree merged by name. Self and total are exact over all stacks; only then a tree is truncated for drawing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/frame_kinds.h"
#include "base/string_table.h"

/** A node of a call tree merged by name: siblings with the same name and kind are one node. */
struct flame_node {
	uint32_t
		parent; // smaller than the node's number; node 0 is the root ("total"), its own parent
	uint32_t name;   // string
	uint32_t module; // string, 0: none
	enum frame_kind kind;
	int64_t self;
	int64_t total;
};

struct flame_tree {
	struct string_table strings;
	struct flame_node *nodes;
	uint32_t node_count, node_capacity;
	bool grouped;         // the root's children are groups
	uint64_t stack_count; // distinct stacks, by names
	uint64_t row_count;   // merged rows
	uint64_t series_count;
};

void flame_tree_deinit(struct flame_tree *tree);

/**
 * Keep the root and the @nodes_max - 1 largest other nodes, with their parents. Totals stay exact.
 * *ret_cut: the value of kept nodes whose child was removed. Returns 0 or -ENOMEM.
 */
int flame_tree_truncate(struct flame_tree *tree, uint32_t nodes_max, int64_t *ret_cut);

/**
 * The self values that the stacks of @tree have in @other, by node of @tree: node_count values for the caller to free. NULL:
 * out of memory.
 */
int64_t *flame_tree_self_in(const struct flame_tree *tree, const struct flame_tree *other);

/**
 * Subtract from each self value of @tree that of the same stack in @before; a stack that shrank has 0.
 * Totals do not change. Returns 0 or -ENOMEM.
 */
int flame_tree_subtract(struct flame_tree *tree, const struct flame_tree *before);
