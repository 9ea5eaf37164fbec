// SPDX-License-Identifier: Apache-2.0
#include "collector/store/slot_counts.h"

#include "collector/store/interval.h"
#include "collector/store/rows.h"

static void add_count(int64_t *count, int64_t value)
{
	*count = (int64_t)((uint64_t)*count + (uint64_t)value);
}

/** The slot of an answer that rows of a series, in order of time, have come to: a division for each is most of the work. */
struct slot_cursor {
	uint64_t slot;       // of the answer
	uint64_t first, end; // slots of the rows that begin in it
	const struct slot_counts *counting;
	uint64_t slot_ns; // of the rows
};

static struct slot_cursor slot_cursor_of(const struct slot_counts *counting,
					 const struct store_rows *rows)
{
	return (struct slot_cursor){ .counting = counting, .slot_ns = rows->slot_ns };
}

/** Move to the answer's slot in which slot @number of the rows begins; it begins at or after from_ns. */
static inline void slot_cursor_move(struct slot_cursor *cursor, uint64_t number)
{
	const struct slot_counts *counting = cursor->counting;

	if (number >= cursor->first && number < cursor->end)
		return;
	cursor->slot = (number * cursor->slot_ns - counting->from_ns) / counting->slot_ns;
	cursor->first = number;
	cursor->end = slot_at(counting->from_ns + (cursor->slot + 1) * counting->slot_ns,
			      cursor->slot_ns);
}

static void count_slots(const struct slot_counts *counting, const struct store_rows *rows,
			int64_t *counts)
{
	struct slot_cursor cursor = slot_cursor_of(counting, rows);

	for (uint32_t i = 0; i < rows->count; i++) {
		slot_cursor_move(&cursor, rows->slots[i]);
		if (cursor.slot < counting->slot_count)
			add_count(&counts[cursor.slot], rows->values[i]);
	}
}

/** Add slots [first, end) of one interval, one count at a time. */
static void count_parts(struct slot_cursor *cursor, const struct store_rows *rows, uint32_t number,
			uint64_t first, uint64_t end, int64_t *counts)
{
	uint64_t slot = rows->slots[number];
	uint32_t more_slots = rows->more_slots[number];
	int64_t value = rows->values[number];
	int64_t before = interval_before(value, more_slots, first - slot);

	while (first < end) {
		slot_cursor_move(cursor, first);
		uint64_t last = cursor->end < end ? cursor->end : end;
		int64_t until = interval_before(value, more_slots, last - slot);

		add_count(&counts[cursor->slot], until - before);
		before = until;
		first = last;
	}
}

/** count_parts() of a whole interval into slots of its own length: as interval_before() spreads it. */
static void count_each(int64_t *counts, uint32_t slots, int64_t value)
{
	int64_t each = value / (int64_t)slots, rest = value % (int64_t)slots;
	int64_t unit = rest < 0 ? -1 : 1;
	uint32_t larger = (uint32_t)(rest < 0 ? -rest : rest);

	for (uint32_t i = 0; i < larger; i++)
		add_count(&counts[i], each + unit);
	for (uint32_t i = larger; i < slots; i++)
		add_count(&counts[i], each);
}

static void count_intervals(const struct slot_counts *counting, const struct store_rows *rows,
			    int64_t *counts)
{
	uint64_t end_ns = counting->from_ns + counting->slot_count * counting->slot_ns;
	uint64_t from = slot_at(counting->from_ns, rows->slot_ns);
	uint64_t to = slot_at(end_ns, rows->slot_ns);
	bool is_same = counting->slot_ns == rows->slot_ns;
	struct slot_cursor cursor = slot_cursor_of(counting, rows);

	for (uint32_t i = 0; i < rows->count; i++) {
		uint64_t slot = rows->slots[i], first = slot;
		uint64_t end = first + rows->more_slots[i] + 1;

		if (is_same && first >= from && end <= to) {
			count_each(&counts[first - from], rows->more_slots[i] + 1, rows->values[i]);
			continue;
		}
		first = first > from ? first : from;
		end = end < to ? end : to;
		if (first >= end)
			continue;
		slot_cursor_move(&cursor, first);
		if (first == slot && end == slot + rows->more_slots[i] + 1 && end <= cursor.end)
			add_count(&counts[cursor.slot], rows->values[i]);
		else
			count_parts(&cursor, rows, i, first, end, counts);
	}
}

enum { SPREAD_UNIT_NS = 1000000 }; // to which downsampled rows are spread

/** Add the part of one row that lies in the slots, by the share of its time in each. */
static void spread_row(const struct slot_counts *counting, const struct store_rows *rows,
		       uint32_t number, int64_t *counts)
{
	uint64_t slots = (rows->more_slots ? rows->more_slots[number] : 0) + 1ULL;
	uint64_t start_ns = rows->slots[number] * rows->slot_ns, units = slots * rows->slot_ns;
	uint64_t to = start_ns > counting->from_ns
			      ? (start_ns - counting->from_ns) / counting->slot_ns
			      : 0;
	uint64_t at = counting->from_ns > start_ns ? counting->from_ns - start_ns : 0;
	int64_t value = rows->values[number];

	units /= SPREAD_UNIT_NS;
	at /= SPREAD_UNIT_NS;
	for (uint64_t next; at < units && to < counting->slot_count; to++, at = next) {
		uint64_t end_ns = counting->from_ns + (to + 1) * counting->slot_ns;

		next = (end_ns - start_ns) / SPREAD_UNIT_NS;
		next = next < units ? next : units;
		add_count(&counts[to], interval_before(value, (uint32_t)units - 1, next) -
					       interval_before(value, (uint32_t)units - 1, at));
	}
}

void slot_counts_add(const struct slot_counts *counting, const struct store_rows *rows)
{
	uint64_t row = counting->rows ? counting->rows[rows->series] : 0;
	int64_t *counts = counting->counts + row * counting->slot_count;

	if (row == STORE_ROW_NONE)
		return;
	if (rows->slot_ns > counting->slot_ns && rows->slot_ns <= counting->downsampled_ns)
		for (uint32_t i = 0; i < rows->count; i++)
			spread_row(counting, rows, i, counts);
		else if (rows->more_slots)
			count_intervals(counting, rows, counts);
		else
			count_slots(counting, rows, counts);
}
