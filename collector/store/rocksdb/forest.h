// SPDX-License-Identifier: Apache-2.0
// The stacks of one partition: a forest of frames with dense ids. A node is (parent, frame), its
// parent's id is smaller than its own, so that a stack is one integer, shared callers are kept
// once and totals are one sweep from the highest id down.
//
// A forest only grows. What it grew by since it was last saved is encoded as records, and a forest
// is read back from its records in the order of their kinds (key.h). One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/profile.h"
#include "collector/store/rocksdb/key.h"
#include "collector/store/rocksdb/rocksdb_db.h"

enum {
	// 4 M nodes are 64 MB of arrays and index. A service of 20,000 distinct stacks has about
	// 100,000 nodes: more in one hour means generated or hostile stacks.
	FOREST_NODES_MAX = 4 << 20,
	FOREST_STACKS_MAX = 2 << 20,
};

/** A stack as agents name it, and the node that it became. */
struct forest_stack {
	struct id128 id;
	uint32_t node;
};

/** How much of something is already saved. */
struct forest_mark {
	uint32_t strings, locations, nodes, stacks, renamed;
};

struct forest {
	struct profile *locations; // only its locations, lines and strings
	uint32_t *parents;
	uint32_t *frames; // a position in locations, or FOREST_FRAME_END + enum stack_end
	uint32_t node_count, parent_capacity, frame_capacity;
	struct forest_stack *stacks;
	uint32_t stack_count, stack_capacity;
	struct hash_table node_index, stack_index;
	uint32_t *renamed; // locations that got lines after they were saved
	uint32_t renamed_count, renamed_capacity;
	uint32_t stacks_refused; // at FOREST_NODES_MAX or FOREST_STACKS_MAX
};

/** NULL when out of memory. */
struct forest *forest_new(void);
void forest_free(struct forest *forest);
void forest_freep(struct forest **forest);
uint64_t forest_memory(const struct forest *forest);

/** The node of the stack with @id, or HASH_TABLE_NONE. */
uint32_t forest_find_stack(const struct forest *forest, struct id128 id);

/**
 * Add @profile's stack number @stack, which is defined. At a limit it becomes the node of lost
 * stacks, so that its value still counts. Returns 0 or -ENOMEM.
 */
int forest_add_stack(struct forest *forest, const struct profile *profile, uint32_t stack,
		     uint32_t *ret_node);

/** As above, from @from's node of the same stack. */
int forest_copy_stack(struct forest *forest, const struct forest *from, struct id128 id,
		      uint32_t from_node, uint32_t *ret_node);

/** Is there no room for another stack? */
bool forest_is_full(const struct forest *forest);
/** The node of stacks whose body was lost. */
int forest_add_lost(struct forest *forest, uint32_t *ret_node);

/** Take the lines of locations that say more in @profile than here (profile_add_location()). */
int forest_take_names(struct forest *forest, const struct profile *profile);

/** What was added since @mark, as one record of @kind; nothing is appended if there is nothing. */
void forest_encode(const struct forest *forest, enum record_kind kind,
		   const struct forest_mark *mark, struct buffer *record);
struct forest_mark forest_mark_of(const struct forest *forest);
/** What was encoded up to @mark is saved. */
void forest_saved(struct forest *forest, const struct forest_mark *mark);

/** Append a node or a stack as it was; for forest_decode(). 0, -ENOMEM, -E2BIG. */
int forest_restore_node(struct forest *forest, uint32_t parent, uint32_t frame);
int forest_restore_stack(struct forest *forest, struct id128 id, uint32_t node);

/** Add a record of @kind. -EBADMSG if it does not fit what was added before. */
int forest_decode(struct forest *forest, enum record_kind kind, struct bytes record,
		  struct error *err);
