// SPDX-License-Identifier: Apache-2.0
// Cuts the time of one side of a comparison into blocks, whose values are its observations.
#pragma once

#include <stdint.h>

#include "collector/query/query_ranges.h"

enum {
	TIME_BLOCKS_WANTED =
		32, // of a side: enough to know a variance to a quarter, and each is a scan
	// A range may have one block more than its share at each end, and what lies outside of the hull.
	TIME_BLOCKS_MAX = TIME_BLOCKS_WANTED + 4 * QUERY_RANGES_MAX,
};

struct time_blocks {
	struct time_range blocks[TIME_BLOCKS_MAX];
	uint32_t count;
};

/**
 * Cut the part of @ranges (ascending and disjoint) within @hull at multiples of a length: whole minutes, which the store
 * reads many times faster; of short parts whole seconds, or slots of 20 ms. What lies outside of @hull is not cut.
 * Returns 0, or -EINVAL: @count is not from 1 to QUERY_RANGES_MAX, or a range is empty.
 */
int time_blocks_of(const struct time_range *ranges, uint32_t count, struct time_range hull,
		   struct time_blocks *ret_blocks);
