// SPDX-License-Identifier: Apache-2.0
// Adds rows up by slots of an answer: what store_activity() counts.
#pragma once

#include "collector/store/store.h"

struct slot_counts {
	uint64_t from_ns, slot_ns, slot_count;
	const uint32_t *rows; // by number of the series, or STORE_ROW_NONE; NULL: all to row 0
	int64_t *counts;
	uint64_t downsampled_ns; // rows with slots up to so long may be downsampled; 0: none is
};

/**
 * A row that is downsampled to a slot longer than the answer's is spread evenly over its time: where in it the samples
 * were is not known any more.
 *
 * A row outside of the slots counts nowhere, an interval where its slots begin. Rows begin at or after from_ns, or are
 * intervals.
 */
void slot_counts_add(const struct slot_counts *counting, const struct store_rows *rows);
