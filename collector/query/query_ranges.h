// SPDX-License-Identifier: Apache-2.0
// Several time ranges that a query counts together, each moment once.
#pragma once

#include <stdint.h>

#include "collector/store/store.h"

enum {
	QUERY_RANGES_MAX = 64, // of a query: each row is compared with them
};

/** Sorted and disjoint once tidied. */
struct query_ranges {
	struct time_range at[QUERY_RANGES_MAX];
	uint32_t count;
};

/** Sort, and join those that overlap or touch. Each has from < to. */
void query_ranges_tidy(struct query_ranges *ranges);
/** Widen each to whole multiples of @unit_ns, and tidy. */
void query_ranges_widen(struct query_ranges *ranges, uint64_t unit_ns);
/** From the first one's begin to the last one's end. @ranges is tidy and not empty. */
struct time_range query_ranges_hull(const struct query_ranges *ranges);
/** What is left of @range without @holes, which are tidy. Returns 0; -E2BIG: more than QUERY_RANGES_MAX ranges. */
int query_ranges_without(struct time_range range, const struct query_ranges *holes,
			 struct query_ranges *ret_rest);
