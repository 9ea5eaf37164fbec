// SPDX-License-Identifier: Apache-2.0
// Rows of samples while they are in memory, and what a reader asks of encoded ones. A window is a
// minute of Unix time; rows are kept and encoded by the window in which their slot begins.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/store/store.h"

#define WINDOW_NS (60ULL * 1000000000ULL)

enum {
	// With slots of 1 ms, the shortest, a window has 60,000.
	WINDOW_SLOTS_MAX = 60001,
	SLOT_NS_MIN = 1000000,
};

struct row {
	uint32_t series; // in the partition
	uint32_t slot;   // in the window
	uint32_t node;
	uint32_t more_slots; // interval.h; it ends in the same window
	int64_t value;
};

/** By (series, slot), or by (more_slots, node) for the rows of one slot. Stable. 0 or -ENOMEM. */
int rows_sort_by_slot(struct row *rows, uint32_t count);
int rows_sort_by_node(struct row *rows, uint32_t count);

/** The number of the first slot that begins at or after @time_ns. */
static inline uint64_t slot_at(uint64_t time_ns, uint64_t slot_ns)
{
	return time_ns / slot_ns + (time_ns % slot_ns != 0);
}

#define SERIES_UNWANTED UINT32_MAX

/** Which rows of an encoded run a reader wants, and where they go. */
struct row_query {
	uint64_t first_slot; // of the window, absolute
	uint64_t from_slot;  // absolute, [from, to)
	uint64_t to_slot;
	const uint32_t *wanted; // by series of the partition: its number, or SERIES_UNWANTED
	uint32_t wanted_count;  // series from here on are unwanted
	uint32_t number;        // of all series where wanted is NULL
	enum scan_detail detail;
	bool without_nodes; // slots and values are enough: nodes is NULL
	void *context;
	/**
	 * One call per series with rows; for SCAN_SUMS all series are number 0. A non-zero return
	 * ends the reading and is returned.
	 */
	int (*rows)(void *context, const struct store_rows *rows);
};

static inline uint32_t row_query_number(const struct row_query *query, uint32_t series)
{
	if (!query->wanted)
		return query->number;
	return series < query->wanted_count ? query->wanted[series] : SERIES_UNWANTED;
}

/** Columns that grow and are used again from run to run. */
struct row_columns {
	uint32_t capacity;
	uint64_t *slots;
	uint32_t *nodes;
	uint32_t *more_slots;
	int64_t *values;
};

void row_columns_deinit(struct row_columns *columns);
/** Room for @count rows. Returns 0 or -ENOMEM. */
int row_columns_reserve(struct row_columns *columns, uint32_t count);
