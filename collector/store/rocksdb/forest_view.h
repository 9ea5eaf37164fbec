// SPDX-License-Identifier: Apache-2.0
// An immutable snapshot of a forest: queries read it without a lock while the forest grows.
// Reference counted; safe for several threads.
#pragma once

#include <stdatomic.h>

#include "collector/store/rocksdb/forest.h"
#include "collector/store/store.h"

struct forest_view {
	atomic_uint refs;
	struct store_forest forest;
	struct profile *locations; // without its hash tables: read by position only
	uint32_t *parents, *frames;
	uint64_t memory;
};

/** A snapshot of @forest. NULL when out of memory. */
struct forest_view *forest_view_copy(const struct forest *forest);
/** Turn @forest into a view without copying; @forest is freed, also on failure (NULL). */
struct forest_view *forest_view_take(struct forest *forest);

struct forest_view *forest_view_ref(struct forest_view *view);
void forest_view_unref(struct forest_view *view);

/** Has @forest grown since @view was copied? */
bool forest_view_is_stale(const struct forest_view *view, const struct forest *forest);
