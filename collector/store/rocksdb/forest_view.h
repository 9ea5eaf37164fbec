// SPDX-License-Identifier: Apache-2.0
// A forest as queries see it: it never changes, so that queries read it without a lock while the
// forest itself grows. Shared by counted references; safe for several threads.
#pragma once

#include <stdatomic.h>

#include "collector/store/rocksdb/forest.h"
#include "collector/store/store.h"

struct forest_view {
	atomic_uint refs;
	struct store_forest forest;
	struct profile *locations; // without its hash tables: for reading by position only
	uint32_t *parents, *frames;
	uint64_t memory;
};

/** A copy of @forest as it is now. NULL when out of memory. */
struct forest_view *forest_view_copy(const struct forest *forest);
/** As above, of a forest that is no longer needed: takes its arrays, frees it in any case. */
struct forest_view *forest_view_take(struct forest *forest);

struct forest_view *forest_view_ref(struct forest_view *view);
void forest_view_unref(struct forest_view *view);
void forest_view_unrefp(struct forest_view **view);

/** Has @forest grown since @view was copied? */
bool forest_view_is_stale(const struct forest_view *view, const struct forest *forest);
