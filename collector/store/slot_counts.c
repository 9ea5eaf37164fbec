// SPDX-License-Identifier: Apache-2.0
#include "collector/store/slot_counts.h"

#include "collector/store/interval.h"
#include "collector/store/rows.h"

static void add_count(int64_t *count, int64_t value)
{
	*count = (int64_t)((uint64_t)*count + (uint64_t)value);
}

static void count_slots(const struct slot_counts *counting, const struct store_rows *rows,
			int64_t *counts)
{
	for (uint32_t i = 0; i < rows->count; i++) {
		uint64_t slot =
			(rows->slots[i] * rows->slot_ns - counting->from_ns) / counting->slot_ns;

		if (slot < counting->slot_count)
			add_count(&counts[slot], rows->values[i]);
	}
}

/** Add slots [first, end) of one interval, one count at a time. */
static void count_interval(const struct slot_counts *counting, const struct store_rows *rows,
			   uint32_t number, uint64_t first, uint64_t end, int64_t *counts)
{
	uint64_t slot_ns = rows->slot_ns, slot = rows->slots[number];
	uint64_t to = (first * slot_ns - counting->from_ns) / counting->slot_ns;
	uint64_t step = counting->slot_ns % slot_ns == 0 ? counting->slot_ns / slot_ns : 0;
	uint64_t next = slot_at(counting->from_ns + (to + 1) * counting->slot_ns, slot_ns);
	uint32_t more_slots = rows->more_slots[number];
	int64_t value = rows->values[number];
	int64_t before = interval_before(value, more_slots, first - slot);

	for (; first < end; to++) {
		uint64_t last = next < end ? next : end;
		int64_t until = interval_before(value, more_slots, last - slot);

		add_count(&counts[to], until - before);
		before = until;
		first = last;
		next = step ? next + step
			    : slot_at(counting->from_ns + (to + 2) * counting->slot_ns, slot_ns);
	}
}

static void count_intervals(const struct slot_counts *counting, const struct store_rows *rows,
			    int64_t *counts)
{
	uint64_t end_ns = counting->from_ns + counting->slot_count * counting->slot_ns;
	uint64_t from = slot_at(counting->from_ns, rows->slot_ns);
	uint64_t to = slot_at(end_ns, rows->slot_ns);

	for (uint32_t i = 0; i < rows->count; i++) {
		uint64_t first = rows->slots[i], end = first + rows->more_slots[i] + 1;

		first = first > from ? first : from;
		end = end < to ? end : to;
		count_interval(counting, rows, i, first, end, counts);
	}
}

enum { SPREAD_UNIT_NS = 1000000 }; // to which rolled-up rows are spread

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

	if (rows->slot_ns > counting->slot_ns && rows->slot_ns <= counting->rolled_up_ns)
		for (uint32_t i = 0; i < rows->count; i++)
			spread_row(counting, rows, i, counts);
		else if (rows->more_slots)
			count_intervals(counting, rows, counts);
		else
			count_slots(counting, rows, counts);
}
