// SPDX-License-Identifier: Apache-2.0
// Rows in memory, and what a reader wants of encoded rows. The store encodes rows by minute of Unix
// time: a row belongs to the minute in which its slot begins, and never reaches into the next.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/store/interval.h"
#include "collector/store/store.h"

#define MINUTE_NS (60ULL * 1000000000ULL)

enum {
	// A minute has 60,000 slots of SLOT_NS_MIN, and part of one more.
	MINUTE_SLOTS_MAX = 60001,
	SLOT_NS_MIN = 1000000,
};

struct row {
	uint32_t series; // in the partition
	uint32_t slot;   // in the minute
	uint32_t node;
	uint32_t more_slots; // slots covered after the first (interval.h)
	int64_t value;
};

/** Sort by (series, slot), or by (more_slots, node) for rows of one slot. Stable. 0 or -ENOMEM. */
int rows_sort_by_slot(struct row *rows, uint32_t count);
int rows_sort_by_node(struct row *rows, uint32_t count);

/** The greatest common divisor of the values, or 1 if there is none below 2^63. */
uint64_t rows_scale(const struct row *rows, uint32_t count);
bool rows_have_intervals(const struct row *rows, uint32_t count);

/** The number of the first slot that begins at or after @time_ns. */
static inline uint64_t slot_at(uint64_t time_ns, uint64_t slot_ns)
{
	return time_ns / slot_ns + (time_ns % slot_ns != 0);
}

#define SERIES_UNWANTED UINT32_MAX

/** Slots [from, to). */
struct slot_range {
	uint64_t from, to;
};

/** The rows that a reader wants of a run or a chunk, and who receives them. */
struct row_query {
	uint64_t first_slot; // of the minute, absolute
	uint64_t from_slot;  // absolute, [from, to)
	uint64_t to_slot;
	const struct slot_range *parts; // of these slots, sorted, disjoint, none of them empty;
	uint32_t part_count;            // 0: all of these slots
	const uint32_t *wanted; // by series of the partition: its number, or SERIES_UNWANTED
	uint32_t wanted_count;  // later series are unwanted
	uint32_t number;        // wanted is NULL: the number of all series
	enum scan_detail detail;
	bool without_nodes; // rows come with nodes NULL
	void *context;
	/**
	 * Called once per series with rows; with SCAN_SUMS all series are number 0. A non-zero
	 * return ends the reading and is returned.
	 */
	int (*rows)(void *context, const struct store_rows *rows);
};

static inline uint32_t row_query_number(const struct row_query *query, uint32_t series)
{
	if (!query->wanted)
		return query->number;
	return series < query->wanted_count ? query->wanted[series] : SERIES_UNWANTED;
}

/** Are any of the slots from @first to @last wanted? */
static inline bool row_query_has(const struct row_query *query, uint64_t first, uint64_t last)
{
	if (last < query->from_slot || first >= query->to_slot)
		return false;
	for (uint32_t i = 0; i < query->part_count; i++)
		if (first < query->parts[i].to)
			return last >= query->parts[i].from;
	return !query->part_count;
}

/** Are all of them wanted, and next to each other? */
static inline bool row_query_has_all(const struct row_query *query, uint64_t first, uint64_t last)
{
	if (first < query->from_slot || last >= query->to_slot)
		return false;
	for (uint32_t i = 0; i < query->part_count; i++)
		if (first < query->parts[i].to)
			return first >= query->parts[i].from && last < query->parts[i].to;
	return !query->part_count;
}

/** The part of an interval's value in wanted slots. */
static inline int64_t row_query_part(const struct row_query *query, uint64_t slot,
				     uint32_t more_slots, int64_t value)
{
	uint64_t sum = 0;

	if (!query->part_count)
		return interval_within(slot, more_slots, value, query->from_slot, query->to_slot);
	for (uint32_t i = 0; i < query->part_count; i++)
		sum += (uint64_t)interval_within(slot, more_slots, value, query->parts[i].from,
						 query->parts[i].to);
	return (int64_t)sum;
}

/** Columns that are reused from run to run. */
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
