// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/chunk_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/store/rocksdb/record_limits.h"

enum {
	// A rollup is written where it has this many times fewer rows than the group; elsewhere it
	// costs more than it saves.
	ROLLUP_ROWS_MIN = 16,
};

// ---- sums of a group ----------------------------------------------------------------------------------

/** A slot's difference to the one before it: an interval of any length costs two steps. */
struct slot_step {
	uint64_t value;
	uint32_t intervals; // that cover the slot
};

static void group_sums_deinit(struct group_sums *sums)
{
	free(sums->totals);
	free(sums->sums);
	free(sums->sum_of);
	free(sums->has_slot);
	free(sums->steps);
}

static int group_sums_init(struct group_sums *sums)
{
	sums->totals = calloc(MINUTE_SLOTS_MAX, sizeof(*sums->totals));
	sums->has_slot = calloc(MINUTE_SLOTS_MAX, sizeof(*sums->has_slot));
	sums->first_slot = MINUTE_SLOTS_MAX;
	return sums->totals && sums->has_slot ? 0 : -ENOMEM;
}

/* Most groups have rows in a part of the minute, and most minutes far fewer slots than the most there can be. */
static void group_sums_clear(struct group_sums *sums)
{
	uint32_t first = sums->first_slot;
	uint32_t count = sums->end_slot > first ? sums->end_slot - first : 0;

	memset(sums->totals + first, 0, count * sizeof(*sums->totals));
	memset(sums->has_slot + first, 0, count * sizeof(*sums->has_slot));
	if (sums->has_steps)
		memset(sums->steps + first, 0, (count + 1) * sizeof(*sums->steps));
	sums->has_steps = false;
	sums->first_slot = MINUTE_SLOTS_MAX;
	sums->end_slot = 0;
	for (uint32_t i = 0; i < sums->sum_count; i++)
		sums->sum_of[sums->sums[i].node] = 0;
	sums->sum_count = 0;
	sums->row_count = 0;
}

static void note_slots(struct group_sums *sums, const struct row *row)
{
	uint32_t end = row->slot + row->more_slots + 1;

	sums->first_slot = row->slot < sums->first_slot ? row->slot : sums->first_slot;
	sums->end_slot = end > sums->end_slot ? end : sums->end_slot;
}

static int reserve_node(struct group_sums *sums, uint32_t node)
{
	if (node < sums->sum_of_count)
		return 0;
	uint32_t count = node + node / 4 + 1024;
	uint32_t *larger = reallocarray(sums->sum_of, count, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	memset(larger + sums->sum_of_count, 0, (count - sums->sum_of_count) * sizeof(*larger));
	sums->sum_of = larger;
	sums->sum_of_count = count;
	return 0;
}

static int add_sum(struct group_sums *sums, const struct row *row)
{
	int rc = reserve_node(sums, row->node);

	if (rc == 0 && !sums->sum_of[row->node]) {
		rc = array_reserve(&sums->sums, sizeof(*sums->sums), &sums->sum_capacity,
				   sums->sum_count, 1, FOREST_NODES_MAX);
		if (rc == 0) {
			sums->sums[sums->sum_count++] = (struct row){ .node = row->node };
			sums->sum_of[row->node] = sums->sum_count;
		}
	}
	if (rc < 0)
		return rc;
	struct row *sum = &sums->sums[sums->sum_of[row->node] - 1];
	sum->value = (int64_t)((uint64_t)sum->value + (uint64_t)row->value);
	return 0;
}

/** Add @value to each of @count slots from @slot on. */
static void add_step(struct group_sums *sums, uint32_t slot, uint32_t count, int64_t value)
{
	sums->steps[slot].value += (uint64_t)value;
	sums->steps[slot + count].value -= (uint64_t)value;
}

/** Spread an interval as interval_before() does. */
static int add_interval(struct group_sums *sums, const struct row *row)
{
	int64_t slots = (int64_t)row->more_slots + 1, rest = row->value % slots;

	if (!sums->steps)
		sums->steps = calloc(MINUTE_SLOTS_MAX + 1, sizeof(*sums->steps));
	if (!sums->steps)
		return -ENOMEM;
	sums->has_steps = true;
	add_step(sums, row->slot, row->more_slots + 1, row->value / slots);
	add_step(sums, row->slot, (uint32_t)llabs(rest), rest < 0 ? -1 : 1);
	sums->steps[row->slot].intervals++;
	sums->steps[row->slot + row->more_slots + 1].intervals--;
	return 0;
}

static void add_total(struct group_sums *sums, uint32_t slot, uint64_t value)
{
	struct row *total = &sums->totals[slot];

	total->value = (int64_t)((uint64_t)total->value + value);
	sums->has_slot[slot] = true;
}

static int add_sums(struct group_sums *sums, const struct row *rows, uint32_t count)
{
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		note_slots(sums, &rows[i]);
		if (rows[i].more_slots)
			rc = add_interval(sums, &rows[i]);
		else
			add_total(sums, rows[i].slot, (uint64_t)rows[i].value);
		if (rc == 0)
			rc = add_sum(sums, &rows[i]);
	}
	sums->row_count += count;
	return rc;
}

/** Add the intervals to the totals. */
static void add_steps(struct group_sums *sums)
{
	uint64_t value = 0;
	uint32_t intervals = 0;

	for (uint32_t slot = sums->first_slot; slot < sums->end_slot; slot++) {
		value += sums->steps[slot].value;
		intervals += sums->steps[slot].intervals;
		if (intervals)
			add_total(sums, slot, value);
	}
}

/** Move the slots with rows together, as rows of node 0. Returns how many from the first slot on. */
static uint32_t compact_totals(struct group_sums *sums)
{
	struct row *to = sums->totals + sums->first_slot;
	uint32_t count = 0;

	if (sums->has_steps)
		add_steps(sums);

	for (uint32_t slot = sums->first_slot; slot < sums->end_slot; slot++)
		if (sums->has_slot[slot])
			to[count++] =
				(struct row){ .slot = slot, .value = sums->totals[slot].value };
	return count;
}

// ---- chunks -------------------------------------------------------------------------------------------

int chunk_writer_init(struct chunk_writer *writer)
{
	return group_sums_init(&writer->sums);
}

void chunk_writer_deinit(struct chunk_writer *writer)
{
	group_sums_deinit(&writer->sums);
}

static int put_chunk(struct chunk_writer *writer, enum chunk_kind kind, uint32_t group,
		     uint32_t last_series, const struct buffer *chunk)
{
	struct chunk_key key = { .minute = writer->minute,
				 .kind = kind,
				 .group = group,
				 .sequence = writer->sequence,
				 .last_series = last_series };
	struct key bytes = key_of_chunk(writer->partition_ns, &key);

	if (chunk->rc)
		return chunk->rc;
	db_batch_put(writer->batch, DB_CHUNK, key_bytes(&bytes),
		     (struct bytes){ chunk->bytes, chunk->size });
	writer->chunk_bytes += chunk->size;
	return 0;
}

int chunk_writer_put(struct chunk_writer *writer, uint32_t group, uint32_t last_series,
		     struct row *rows, uint32_t count, uint64_t slot_ns)
{
	_cleanup_(buffer_deinit) struct buffer chunk = { 0 };
	int rc = chunk_encode(writer->encoder, rows, count, slot_ns, writer->minutes, &chunk,
			      &count);

	if (rc == 0)
		rc = put_chunk(writer, CHUNK_ROWS, group, last_series, &chunk);
	if (rc == 0)
		writer->chunk_rows += count;
	if (rc == 0) // after encoding, which joins rows: both spread the same intervals
		rc = add_sums(&writer->sums, rows, count);
	return rc;
}

int chunk_writer_count(struct chunk_writer *writer, const struct row *rows, uint32_t count)
{
	return add_sums(&writer->sums, rows, count);
}

static int put_rollup(struct chunk_writer *writer, enum chunk_kind kind, uint32_t group,
		      struct row *rows, uint32_t count, uint64_t slot_ns)
{
	_cleanup_(buffer_deinit) struct buffer chunk = { 0 };
	uint32_t kept;
	int rc =
		chunk_encode(writer->encoder, rows, count, slot_ns, writer->minutes, &chunk, &kept);

	return rc ? rc : put_chunk(writer, kind, group, 0, &chunk);
}

static int put_rollups(struct chunk_writer *writer, uint32_t group, uint64_t slot_ns)
{
	struct group_sums *sums = &writer->sums;
	int rc = 0;

	if (sums->row_count < ROLLUP_ROWS_MIN)
		return 0;
	uint32_t total_count = compact_totals(sums);

	if (total_count * (uint64_t)ROLLUP_ROWS_MIN <= sums->row_count)
		rc = put_rollup(writer, CHUNK_TOTALS, group, sums->totals + sums->first_slot,
				total_count, slot_ns);
	if (rc == 0 && sums->sum_count * (uint64_t)ROLLUP_ROWS_MIN <= sums->row_count)
		rc = put_rollup(writer, CHUNK_SUMS, group, sums->sums, sums->sum_count, slot_ns);
	return rc;
}

int chunk_writer_end_group(struct chunk_writer *writer, uint32_t group, uint64_t slot_ns)
{
	int rc = put_rollups(writer, group, slot_ns);

	group_sums_clear(&writer->sums);
	return rc;
}

void chunk_writer_drop_group(struct chunk_writer *writer)
{
	group_sums_clear(&writer->sums);
}
