// SPDX-License-Identifier: Apache-2.0
// The stacks of a profile merged from the root, by the names that people see: what collapsed
// stacks and flame graphs are written from.
#pragma once

#include <stdint.h>

#include "base/profile/profile.h"

/** Node 0 is the root; a parent comes before its children. */
struct call_node {
	uint32_t parent;
	uint32_t name;         // string: a process, a frame, "[truncated: reason]"; "" for the root
	enum frame_kind kind;  // FRAME_KIND_UNKNOWN for what is not a frame
	uint32_t first_child;  // sorted by name; 0: none
	uint32_t next_sibling; // 0: none
	int64_t self;
	int64_t total;
};

struct call_tree {
	struct string_table names;
	struct call_node *nodes;
	uint32_t node_count, node_capacity;
	struct hash_table index; // by parent and name
};

enum { CALL_NODES_MAX = 1 << 24 };

/**
 * Merge the samples of @type in @profile: process name (label "process"), then the reason if the
 * stack was cut, then the frames from the root, inlined calls as frames of their own. Stacks that
 * are not defined count as lost. Sums that do not fit saturate.
 *
 * Returns 0; -ENOMEM; -E2BIG at CALL_NODES_MAX. @ret_tree is to be deinitialized after success.
 */
int call_tree_init(struct call_tree *ret_tree, const struct profile *profile, const char *type);
void call_tree_deinit(struct call_tree *tree);

const char *call_tree_name(const struct call_tree *tree, uint32_t node);

/**
 * The node after @node, parents first and siblings by name; 0 after the last. *@depth, which
 * the caller keeps between calls, follows: the root's is 0.
 */
uint32_t call_tree_next(const struct call_tree *tree, uint32_t node, uint32_t *depth);
