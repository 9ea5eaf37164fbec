// SPDX-License-Identifier: Apache-2.0
// An immutable snapshot of a forest: queries read it without a lock while the forest grows.
// Reference counted; safe for several threads.
//
// A snapshot begins with what the one before has, copied without the forest's lock. Only the growth
// since then is copied under it, and no more than FOREST_VIEW_STEP_BYTES at a time.
#pragma once

#include <stdatomic.h>

#include "collector/store/rocksdb/forest.h"
#include "collector/store/store.h"

enum { FOREST_VIEW_STEP_BYTES = 1 << 20 }; // about 0.1 ms under the lock

/** How much a forest holds. */
struct forest_extent {
	uint32_t nodes, locations, lines, strings, renames;
	size_t string_bytes;
};

struct forest_view {
	atomic_uint refs;
	struct store_forest forest;
	struct profile *locations; // without its hash tables: read by position only
	uint32_t *parents, *frames;
	struct forest_extent extent, room;
	uint64_t memory;
};

struct forest_extent forest_extent_of(const struct forest *forest);
/**
 * Begin a snapshot of a forest that held @now a moment ago. @before (NULL: none) is an earlier one, or
 * one that is not finished. The lock need not be held. NULL when out of memory.
 */
struct forest_view *forest_view_begin(const struct forest_view *before,
				      const struct forest_extent *now);
/**
 * Copy the next step; the forest's lock is held. Returns 0: it is a snapshot of @forest; -EAGAIN: go on,
 * the lock may be released before; -ENOSPC: @forest has outgrown it, begin again with it as @before.
 */
int forest_view_step(struct forest_view *view, const struct forest *forest);
/** Turn @forest into a view without copying; @forest is freed, also on failure (NULL). */
struct forest_view *forest_view_take(struct forest *forest);

struct forest_view *forest_view_ref(struct forest_view *view);
void forest_view_unref(struct forest_view *view);

/** Has @forest grown since @view was copied? */
bool forest_view_is_stale(const struct forest_view *view, const struct forest *forest);
