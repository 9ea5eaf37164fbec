// SPDX-License-Identifier: Apache-2.0
// Maps nodes of partitions' forests to nodes of one tree of names, parents first. A location with inlined
// calls becomes several levels, outermost first.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/hash_table.h"
#include "collector/query/flame_tree.h"
#include "collector/query/frame_title.h"
#include "collector/store/store.h"

/** A location is one level of the tree, or one for each inlined call. */
struct level {
	uint32_t name;
	uint32_t module;
	enum frame_kind kind;
};

/** The levels of a location, outermost first; count 0: not named yet. */
struct level_range {
	uint32_t first;
	uint32_t count;
};

/** A node of the tree, as it is searched among its siblings. Nodes are 0: none, as the root is nobody's child. */
struct tree_link {
	uint32_t name;
	uint32_t next;  // sibling
	uint32_t first; // child
	uint8_t kind;
	uint8_t count; // of children in the list
};

/** Builds a tree that its user owns. One thread at a time. */
struct tree_builder {
	struct flame_tree *tree;
	struct error *err;
	uint32_t nodes_max;     // of the tree
	enum frame_lines lines; // the user's to set: which frames are apart for each source line
	struct symbolizer *symbolizer;
	uint64_t symbolizer_ns;  // the symbolizer's time left
	struct tree_link *links; // by node of the tree
	uint32_t link_capacity;
	struct hash_table index; // (parent, name, kind) to a node of the tree that is in no list

	// Of the current partition.
	uint32_t *tree_of; // forest node to tree node; node 0's is the user's to set
	uint32_t tree_of_capacity;
	struct level_range *ranges; // by location
	struct level *levels;
	uint32_t level_count, level_capacity;
};

/**
 * Begin @tree, which is empty, with its root "total". Frames that agents could not name are named by @symbolizer (NULL:
 * not at all). Failures of all functions are in @err: -E2BIG beyond @nodes_max nodes, -ENOMEM.
 */
int tree_builder_init(struct tree_builder *builder, struct flame_tree *tree, uint32_t nodes_max,
		      struct symbolizer *symbolizer, struct error *err);
void tree_builder_deinit(struct tree_builder *builder);

/** A partition begins: free the last one's nodes and locations. */
int tree_builder_partition(struct tree_builder *builder, const struct store_forest *forest);

/** Room for @count more nodes, as far as the tree may grow: a tree that doubles step by step is copied as often. */
int tree_builder_reserve(struct tree_builder *builder, uint32_t count);

/** Find or add a string of the tree. */
int tree_builder_string(struct tree_builder *builder, const char *string, uint32_t *ret_number);
/** Find or add the child of @parent with @level's name and kind. */
int tree_builder_child(struct tree_builder *builder, uint32_t parent, const struct level *level,
		       uint32_t *ret_node);

/**
 * Map forest node @node, whose parent is mapped: find or add its levels below the parent's, and add @total to
 * each. -EIO: the store is damaged.
 */
int tree_builder_map(struct tree_builder *builder, const struct store_forest *forest, uint32_t node,
		     int64_t total);
