// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * A large library has three million rows while it is sorted, so they are encoded: the first rule, then for each row its
 * distance from the one before and its rule; all as LEB128 numbers. Distance 0 ends the range.
 */
enum {
	ROW_BYTES_MAX = 10,
	INSERTED_RANGES_MAX = 256,
};

static uint32_t find_slot(const struct unwind_rows *rows, const struct unwind_rule *rule)
{
	uint64_t halves[2];

	memcpy(halves, rule, sizeof(halves));
	// Odd multipliers carry each bit to the top, which selects the slot.
	uint64_t hash = (halves[0] * 0x9e3779b97f4a7c15ULL ^ halves[1]) * 0xc2b2ae3d27d4eb4fULL;
	uint32_t slot = (uint32_t)(hash >> 32) % RULE_SLOTS;

	// At most half of the slots are in use, so there is an empty one.
	while (rows->slots[slot] != RULE_NO_TABLE &&
	       memcmp(&rows->rules[rows->slots[slot]], rule, sizeof(*rule)) != 0)
		slot = (slot + 1) % RULE_SLOTS;
	return slot;
}

/* Failures are kept in rows->rc. Capacities double: large blocks move without being copied. */
static void reserve(struct unwind_rows *rows, void *items, size_t item_bytes, uint32_t *capacity,
		    uint32_t count, uint32_t more)
{
	int rc = array_reserve(items, item_bytes, capacity, count, more, UINT32_MAX);

	if (rc)
		rows->rc = rc;
}

static void reserve_row(struct unwind_rows *rows)
{
	reserve(rows, &rows->rows, 1, &rows->rows_capacity, rows->rows_size, ROW_BYTES_MAX);
}

static uint32_t add_rule(struct unwind_rows *rows, const struct unwind_rule *rule)
{
	if (rows->rule_count == UNWIND_RULES_MAX)
		return RULE_UNSUPPORTED;
	reserve(rows, &rows->rules, sizeof(*rows->rules), &rows->rule_capacity, rows->rule_count,
		1);
	if (rows->rule_count == rows->rule_capacity)
		return RULE_UNSUPPORTED;
	rows->rules[rows->rule_count] = *rule;
	return rows->rule_count++;
}

struct unwind_rows *unwind_rows_new(uint32_t row_count_max)
{
	struct unwind_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return NULL;
	rows->row_count_max = row_count_max;
	add_rule(rows, &(struct unwind_rule){ .cfa = CFA_NO_TABLE });
	unwind_rows_rule(rows, &(struct unwind_rule){ .cfa = CFA_UNSUPPORTED });
	unwind_rows_rule(rows, &(struct unwind_rule){ .cfa = CFA_END });
	if (rows->rc) {
		unwind_rows_free(rows);
		return NULL;
	}
	return rows;
}

void unwind_rows_free(struct unwind_rows *rows)
{
	if (!rows)
		return;
	free(rows->ranges);
	free(rows->rows);
	free(rows->rules);
	free(rows);
}

uint32_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule)
{
	static const struct unwind_rule no_table = { .cfa = CFA_NO_TABLE };

	if (memcmp(rule, &no_table, sizeof(no_table)) == 0)
		return RULE_NO_TABLE;

	uint32_t slot = find_slot(rows, rule);
	if (rows->slots[slot] == RULE_NO_TABLE) {
		uint32_t number = add_rule(rows, rule);

		if (number == RULE_UNSUPPORTED && rule->cfa != CFA_UNSUPPORTED)
			return number; // full: the slot stays empty
		rows->slots[slot] = (uint16_t)number;
	}
	return rows->slots[slot];
}

void unwind_rows_begin(struct unwind_rows *rows, uint64_t start, uint64_t size)
{
	if (rows->rc)
		return;
	if (rows->range_count == UNWIND_RANGES_MAX) {
		rows->rc = -E2BIG;
		return;
	}
	reserve(rows, &rows->ranges, sizeof(*rows->ranges), &rows->range_capacity,
		rows->range_count, 1);
	if (rows->rc)
		return;
	if (rows->sorted_count == rows->range_count &&
	    (!rows->range_count || start >= rows->ranges[rows->range_count - 1].start))
		rows->sorted_count++;
	rows->ranges[rows->range_count++] = (struct unwind_range){
		.start = start,
		.size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size,
		.first_row = rows->rows_size,
	};
}

static void put_number(struct unwind_rows *rows, uint32_t number)
{
	for (; number > 0x7f; number >>= 7)
		rows->rows[rows->rows_size++] = (uint8_t)(0x80 | number);
	rows->rows[rows->rows_size++] = (uint8_t)number;
}

static uint32_t take_number(const uint8_t **at)
{
	uint32_t number = 0, shift = 0;
	uint8_t byte;

	do {
		byte = *(*at)++;
		number |= (uint32_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return number;
}

static bool has_rows(const struct unwind_rows *rows)
{
	return rows->ranges[rows->range_count - 1].first_row < rows->rows_size;
}

void unwind_rows_add(struct unwind_rows *rows, uint64_t offset, const struct unwind_rule *rule)
{
	if (!rows->rc)
		unwind_rows_add_number(rows, offset, unwind_rows_rule(rows, rule));
}

void unwind_rows_add_number(struct unwind_rows *rows, uint64_t offset, uint32_t number)
{
	if (rows->rc || offset > UINT32_MAX)
		return;
	if (rows->row_count == rows->row_count_max) {
		rows->rc = -E2BIG;
		return;
	}
	reserve_row(rows);
	if (rows->rc)
		return;
	if (number == RULE_UNSUPPORTED)
		rows->unsupported_count++;
	if (has_rows(rows))
		put_number(rows, (uint32_t)offset - rows->last_offset);
	put_number(rows, number);
	rows->last_offset = (uint32_t)offset;
	rows->row_count++;
}

void unwind_rows_limit(struct unwind_rows *rows, uint64_t limit)
{
	if (rows->rc)
		return;
	struct unwind_range *range = &rows->ranges[rows->range_count - 1];
	range->size = (uint32_t)(limit - range->start);
}

void unwind_rows_end(struct unwind_rows *rows)
{
	if (rows->rc)
		return;
	reserve_row(rows);
	if (!rows->rc)
		put_number(rows, 0);
}

struct unwind_row_cursor unwind_rows_first(const struct unwind_rows *rows,
					   const struct unwind_range *range)
{
	// Without memory, or past the limit, the last range has no rows, or no end: nothing of them is used.
	static const uint8_t nothing[2];
	struct unwind_row_cursor cursor = {
		.at = rows->rc ? nothing : rows->rows + range->first_row,
	};

	cursor.rule = take_number(&cursor.at);
	return cursor;
}

bool unwind_rows_next(struct unwind_row_cursor *cursor)
{
	uint32_t distance = take_number(&cursor->at);

	if (!distance)
		return false;
	cursor->offset += distance;
	cursor->rule = take_number(&cursor->at);
	return true;
}

static int compare_ranges(const void *left, const void *right)
{
	const struct unwind_range *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->first_row < b->first_row ? -1 : a->first_row > b->first_row;
}

/* Moves the range at @at, the first out of order, to its place. */
static void insert_range(struct unwind_rows *rows, uint32_t at)
{
	struct unwind_range range = rows->ranges[at];
	uint32_t first = 0, limit = at;

	while (first < limit) {
		uint32_t middle = first + (limit - first) / 2;

		if (compare_ranges(&rows->ranges[middle], &range) < 0)
			first = middle + 1;
		else
			limit = middle;
	}
	memmove(&rows->ranges[first + 1], &rows->ranges[first],
		(at - first) * sizeof(*rows->ranges));
	rows->ranges[first] = range;
}

void unwind_rows_replace(struct unwind_rows *rows, uint32_t index, const struct unwind_rule *rule)
{
	uint32_t number = unwind_rows_rule(rows, rule);

	reserve_row(rows);
	if (rows->rc)
		return;
	rows->ranges[index].first_row = rows->rows_size;
	put_number(rows, number);
	put_number(rows, 0);
}

void unwind_rows_move_last(struct unwind_rows *rows, uint32_t index)
{
	if (rows->rc)
		return;
	rows->ranges[index].first_row = rows->ranges[--rows->range_count].first_row;
	if (rows->sorted_count > rows->range_count)
		rows->sorted_count = rows->range_count;
}

void unwind_rows_sort(struct unwind_rows *rows)
{
	// Insert a few late ranges: sorting all again would take longer.
	if (rows->range_count - rows->sorted_count > INSERTED_RANGES_MAX)
		qsort(rows->ranges, rows->range_count, sizeof(*rows->ranges), compare_ranges);
	else for (uint32_t at = rows->sorted_count; at < rows->range_count; at++)
		insert_range(rows, at);
	rows->sorted_count = rows->range_count;
}

uint32_t unwind_rows_find(const struct unwind_rows *rows, uint64_t address)
{
	uint32_t first = 0, limit = rows->sorted_count;

	while (first < limit) {
		uint32_t middle = first + (limit - first) / 2;
		const struct unwind_range *range = &rows->ranges[middle];

		if (range->start + range->size <= address)
			first = middle + 1;
		else
			limit = middle;
	}
	return first;
}
