// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	RADIX_BITS = 11, // 2,048 counters fit the first-level cache
	RADIX_SIZE = 1 << RADIX_BITS,
	SMALL_ROWS = 32, // below this, insertion sort beats radix sort
};

typedef uint64_t (*row_key_fn)(const struct row *row);

static uint64_t key_by_slot(const struct row *row)
{
	return (uint64_t)row->series << 32 | row->slot;
}

static uint64_t key_by_node(const struct row *row)
{
	return (uint64_t)row->more_slots << 32 | row->node;
}

static void sort_small(struct row *rows, uint32_t count, row_key_fn key)
{
	for (uint32_t i = 1; i < count; i++) {
		struct row row = rows[i];
		uint64_t own = key(&row);
		uint32_t at = i;

		for (; at > 0 && key(&rows[at - 1]) > own; at--)
			rows[at] = rows[at - 1];
		rows[at] = row;
	}
}

static bool is_sorted(const struct row *rows, uint32_t count, row_key_fn key)
{
	for (uint32_t i = 1; i < count; i++)
		if (key(&rows[i - 1]) > key(&rows[i]))
			return false;
	return true;
}

/** The bits that differ between any two keys: digits without one need no pass. */
static uint64_t differing_bits(const struct row *rows, uint32_t count, row_key_fn key)
{
	uint64_t first = key(&rows[0]), bits = 0;

	for (uint32_t i = 1; i < count; i++)
		bits |= first ^ key(&rows[i]);
	return bits;
}

static void sort_digit(const struct row *from, struct row *to, uint32_t count, row_key_fn key,
		       unsigned int shift)
{
	uint32_t starts[RADIX_SIZE + 1] = { 0 };

	for (uint32_t i = 0; i < count; i++)
		starts[(key(&from[i]) >> shift & (RADIX_SIZE - 1)) + 1]++;
	for (uint32_t i = 0; i < RADIX_SIZE; i++)
		starts[i + 1] += starts[i];
	for (uint32_t i = 0; i < count; i++)
		to[starts[key(&from[i]) >> shift & (RADIX_SIZE - 1)]++] = from[i];
}

static int sort_rows(struct row *rows, uint32_t count, row_key_fn key)
{
	if (is_sorted(rows, count, key))
		return 0;
	if (count <= SMALL_ROWS) {
		sort_small(rows, count, key);
		return 0;
	}

	_cleanup_free_ struct row *scratch = malloc((size_t)count * sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	struct row *from = rows, *to = scratch;
	uint64_t bits = differing_bits(rows, count, key);
	for (unsigned int shift = 0; shift < 64; shift += RADIX_BITS) {
		if (!(bits >> shift & (RADIX_SIZE - 1)))
			continue;
		sort_digit(from, to, count, key, shift);
		struct row *swap = from;
		from = to;
		to = swap;
	}
	if (from != rows)
		memcpy(rows, from, (size_t)count * sizeof(*rows));
	return 0;
}

int rows_sort_by_slot(struct row *rows, uint32_t count)
{
	return sort_rows(rows, count, key_by_slot);
}

int rows_sort_by_node(struct row *rows, uint32_t count)
{
	return sort_rows(rows, count, key_by_node);
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

uint64_t rows_scale(const struct row *rows, uint32_t count)
{
	uint64_t scale = 0;

	for (uint32_t i = 0; i < count && scale != 1; i++) {
		int64_t value = rows[i].value;

		if (i && value == rows[i - 1].value)
			continue;
		scale = greatest_common_divisor(value < 0 ? 0 - (uint64_t)value : (uint64_t)value,
						scale);
	}
	// INT64_MIN's magnitude does not fit int64_t: such a scale could not be multiplied back.
	return scale && scale <= INT64_MAX ? scale : 1;
}

bool rows_have_intervals(const struct row *rows, uint32_t count)
{
	uint32_t any = 0;

	for (uint32_t i = 0; i < count; i++)
		any |= rows[i].more_slots;
	return any;
}

void row_columns_deinit(struct row_columns *columns)
{
	free(columns->slots);
	free(columns->nodes);
	free(columns->more_slots);
	free(columns->values);
	*columns = (struct row_columns){ 0 };
}

int row_columns_reserve(struct row_columns *columns, uint32_t count)
{
	if (count <= columns->capacity)
		return 0;
	row_columns_deinit(columns);
	count += count / 4 + 256;
	columns->slots = malloc((size_t)count * sizeof(*columns->slots));
	columns->nodes = malloc((size_t)count * sizeof(*columns->nodes));
	columns->more_slots = malloc((size_t)count * sizeof(*columns->more_slots));
	columns->values = malloc((size_t)count * sizeof(*columns->values));
	if (!columns->slots || !columns->nodes || !columns->more_slots || !columns->values) {
		row_columns_deinit(columns);
		return -ENOMEM;
	}
	columns->capacity = count;
	return 0;
}
