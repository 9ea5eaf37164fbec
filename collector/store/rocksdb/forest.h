// SPDX-License-Identifier: Apache-2.0
// The stacks of one partition as a forest of frames. A node is (parent, frame), and its number is
// larger than its parent's. So a stack is one integer, common callers are stored once, and totals
// take one sweep from the highest number down.
//
// A forest only grows. Its growth since the last save becomes records; reading the records in the
// order of their kinds (key.h) restores it. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/profile/profile.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/record_limits.h"
#include "collector/store/rocksdb/rocksdb_db.h"

/** A stack's id on the wire, and its innermost node. */
struct forest_stack {
	struct id128 id;
	uint32_t node;
};

/** How much of a forest is saved. */
struct forest_mark {
	uint32_t strings, locations, nodes, stacks, renamed;
};

struct forest {
	struct profile *locations; // locations, lines and strings only
	uint32_t *parents;
	uint32_t *frames; // a position in locations, or FOREST_FRAME_END + enum stack_end
	uint32_t node_count, parent_capacity, frame_capacity;
	struct forest_stack *stacks;
	uint32_t stack_count, stack_capacity;
	struct hash_table node_index, stack_index;
	uint32_t *renamed; // locations whose names came after they were saved
	uint32_t renamed_count, renamed_capacity;
	uint32_t renames;        // so many times a location that was there got names
	uint32_t stacks_dropped; // at FOREST_NODES_MAX or FOREST_STACKS_MAX
};

/** NULL when out of memory. */
struct forest *forest_new(void);
void forest_free(struct forest *forest);
uint64_t forest_memory(const struct forest *forest);

/** The node of the stack @id, or HASH_TABLE_NONE. */
uint32_t forest_find_stack(const struct forest *forest, struct id128 id);

/**
 * Add @profile's stack number @stack, which is defined. At a limit *ret_node is the node of lost
 * stacks: the value still counts. Returns 0 or -ENOMEM.
 */
int forest_add_stack(struct forest *forest, const struct profile *profile, uint32_t stack,
		     uint32_t *ret_node);

/** Copy the stack @id from @from, where its node is @from_node. Returns as above. */
int forest_copy_stack(struct forest *forest, const struct forest *from, struct id128 id,
		      uint32_t from_node, uint32_t *ret_node);

/** Is the forest at a limit? */
bool forest_is_full(const struct forest *forest);
/** The node of lost stacks, whose frames are not known. */
int forest_add_lost(struct forest *forest, uint32_t *ret_node);

/** Copy names and source lines from @profile for locations that lack them here. */
int forest_copy_names(struct forest *forest, const struct profile *profile);

/** Append the growth since @mark as one record of @kind; nothing if there is none. */
void forest_encode(const struct forest *forest, enum record_kind kind,
		   const struct forest_mark *mark, struct buffer *record);
struct forest_mark forest_mark_of(const struct forest *forest);
/** Everything up to @mark is saved. */
void forest_saved(struct forest *forest, const struct forest_mark *mark);

/** Append a node or a stack from a record, for forest_decode(). 0, -ENOMEM, -E2BIG. */
int forest_restore_node(struct forest *forest, uint32_t parent, uint32_t frame);
int forest_restore_stack(struct forest *forest, struct id128 id, uint32_t node);

/** Add a record of @kind. -EBADMSG if it does not continue the records before. */
int forest_decode(struct forest *forest, enum record_kind kind, struct bytes record,
		  struct error *err);
