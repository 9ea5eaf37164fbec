// SPDX-License-Identifier: Apache-2.0
// Adds rows up by slots of an answer: what store_activity() counts.
#pragma once

#include "collector/store/store.h"

struct slot_counts {
	uint64_t from_ns, slot_ns, slot_count;
	const uint32_t *rows; // by number of the series; NULL: all to row 0
	int64_t *counts;
};

/** A row outside of the slots counts nowhere, an interval where its slots begin. Rows begin at or after from_ns, or are intervals. */
void slot_counts_add(const struct slot_counts *counting, const struct store_rows *rows);
