// SPDX-License-Identifier: Apache-2.0
// RocksDB checks the checksums of its files; still, every number is checked here. A damaged chunk
// must end in -EBADMSG, not in an access out of bounds.
#include "collector/store/rocksdb/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/store/rocksdb/chunk_decoder.h"
#include "collector/store/rocksdb/chunk_sums.h"

struct chunk_decoder *chunk_decoder_new(void)
{
	struct chunk_decoder *decoder = calloc(1, sizeof(*decoder));

	if (decoder && chunk_decoder_init(decoder)) {
		free(decoder);
		return NULL;
	}
	return decoder;
}

void chunk_decoder_freep(struct chunk_decoder **at)
{
	struct chunk_decoder *decoder = *at;

	if (!decoder)
		return;
	chunk_decoder_deinit(decoder);
	free(decoder);
}

/** Place the nodes by (position, node), if wanted. Turns ends from starts into ends. */
static void place_nodes(struct chunk_decoder *decoder, bool wanted)
{
	const uint32_t *position = decoder->positions;
	uint32_t *ends = decoder->ends;

	if (!wanted)
		memmove(ends, ends + 1, decoder->position_count * sizeof(*ends));
	for (uint32_t i = 0; wanted && i < decoder->run_count; i++)
		for (uint32_t j = 0; j < decoder->runs[i].count; j++)
			decoder->rows.nodes[ends[*position++]++] = decoder->runs[i].node;
}

// ---- one series -----------------------------------------------------------------------------------

static uint32_t row_at(const struct chunk_decoder *decoder, uint32_t position)
{
	return position ? decoder->ends[position - 1] : 0;
}

static int read_slots(struct chunk_decoder *decoder, const struct chunk_section *section,
		      uint64_t first_slot)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint32_t row = row_at(decoder, section->first);
	uint64_t slot = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += chunk_read_number(reader);
		if (slot >= decoder->slots_max)
			return -EBADMSG;
		for (; row < decoder->ends[i]; row++)
			decoder->rows.slots[row] = first_slot + slot;
	}
	return reader->failed ? -EBADMSG : 0;
}

/** read_slots() of a chunk with lengths. */
static int read_intervals(struct chunk_decoder *decoder, const struct chunk_section *section,
			  uint64_t first_slot)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint32_t row = row_at(decoder, section->first), more_slots;
	uint64_t slot = 0, last = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += chunk_read_number(reader);
		if (chunk_read_length(decoder, slot, &more_slots) < 0)
			return -EBADMSG;
		last = slot + more_slots > last ? slot + more_slots : last;
		for (; row < decoder->ends[i]; row++) {
			decoder->rows.slots[row] = first_slot + slot;
			decoder->rows.more_slots[row] = more_slots;
		}
	}
	decoder->last_slot = first_slot + last;
	return reader->failed || decoder->readers[COLUMN_LENGTHS].failed ? -EBADMSG : 0;
}

static int skip_section(struct chunk_decoder *decoder, const struct chunk_section *section,
			uint32_t row_count)
{
	struct reader *slots = &decoder->readers[COLUMN_SLOTS];
	struct reader *escapes = &decoder->readers[COLUMN_ESCAPES];
	const uint8_t *codes = reader_bytes(&decoder->readers[COLUMN_VALUES], row_count);

	if (!codes)
		return -EBADMSG;
	for (uint32_t i = 0; i < section->count; i++)
		chunk_read_number(slots);
	for (uint32_t i = 0; decoder->with_lengths && i < section->count; i++)
		chunk_read_number(&decoder->readers[COLUMN_LENGTHS]);
	for (uint32_t i = 0; i < row_count; i++)
		if (codes[i] == VALUE_ESCAPE)
			chunk_read_number(escapes);
	return slots->failed || escapes->failed ? -EBADMSG : 0;
}

/** Move the rows in the query's range to the front of [first, first + count). Returns how many. */
static uint32_t keep_range(struct row_columns *rows, uint32_t first, uint32_t count,
			   const struct row_query *query)
{
	uint32_t kept = first;

	for (uint32_t i = first; i < first + count; i++) {
		uint64_t slot = rows->slots[i];

		rows->slots[kept] = slot;
		rows->nodes[kept] = rows->nodes[i];
		rows->values[kept] = rows->values[i];
		kept += row_query_has(query, slot, slot);
	}
	return kept - first;
}

/** keep_range() of intervals; for sums, values are cut to their part in the range. */
static uint32_t keep_intervals(struct row_columns *rows, uint32_t first, uint32_t count,
			       const struct row_query *query)
{
	uint32_t kept = first;

	for (uint32_t i = first; i < first + count; i++) {
		uint64_t slot = rows->slots[i];
		uint32_t more_slots = rows->more_slots[i];
		int64_t value = rows->values[i];

		rows->slots[kept] = slot;
		rows->nodes[kept] = rows->nodes[i];
		rows->more_slots[kept] = more_slots;
		rows->values[kept] = query->detail == SCAN_ROWS
					     ? value
					     : row_query_part(query, slot, more_slots, value);
		kept += row_query_has(query, slot, slot + more_slots);
	}
	return kept - first;
}

static uint32_t keep_rows(struct chunk_decoder *decoder, uint32_t first, uint32_t count,
			  const struct row_query *query)
{
	struct row_columns *rows = &decoder->rows;

	uint64_t last = decoder->with_lengths ? decoder->last_slot : rows->slots[first + count - 1];

	if (row_query_has_all(query, rows->slots[first], last))
		return count;
	return decoder->with_lengths ? keep_intervals(rows, first, count, query)
				     : keep_range(rows, first, count, query);
}

static int pass_section(struct chunk_decoder *decoder, uint32_t first, uint32_t count,
			uint32_t number, const struct row_query *query)
{
	struct row_columns *rows = &decoder->rows;
	bool with_slots = query->detail == SCAN_ROWS;
	struct store_rows found = {
		.series = number,
		.slot_ns = decoder->slot_ns,
		.count = keep_rows(decoder, first, count, query),
		.slots = with_slots ? rows->slots + first : NULL,
		.more_slots = with_slots && decoder->with_lengths ? rows->more_slots + first : NULL,
		.nodes = query->without_nodes ? NULL : rows->nodes + first,
		.values = rows->values + first,
	};

	return found.count ? query->rows(query->context, &found) : 0;
}

static int decode_section(struct chunk_decoder *decoder, const struct chunk_section *section,
			  const struct row_query *query)
{
	uint32_t number = row_query_number(query, section->series);
	uint32_t first = row_at(decoder, section->first);
	uint32_t count = row_at(decoder, section->first + section->count) - first;

	if (number == SERIES_UNWANTED)
		return skip_section(decoder, section, count);
	int rc = decoder->with_lengths ? read_intervals(decoder, section, query->first_slot)
				       : read_slots(decoder, section, query->first_slot);
	if (rc == 0)
		rc = chunk_decoder_read_values(decoder, first, count);
	if (rc == 0 && count)
		rc = pass_section(decoder, first, count, number, query);
	return rc;
}

// ---- the chunk --------------------------------------------------------------------------------------

/** chunk_decoder_place() of a chunk that has one row in each position, for a reader without nodes: their columns stay packed. */
static int place_single_rows(struct chunk_decoder *decoder)
{
	static const enum chunk_column columns[] = { COLUMN_SLOTS, COLUMN_VALUES, COLUMN_ESCAPES };
	int rc = decoder->with_lengths ? chunk_decoder_unpack(decoder, COLUMN_LENGTHS) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns) && rc == 0; i++)
		rc = chunk_decoder_unpack(decoder, columns[i]);
	for (uint32_t i = 0; i < decoder->position_count && rc == 0; i++)
		decoder->ends[i] = i + 1;
	return rc;
}

static int place_all_rows(struct chunk_decoder *decoder, const struct row_query *query)
{
	if (query->without_nodes && decoder->position_count == decoder->row_count)
		return place_single_rows(decoder);
	decoder->all_wanted = true;
	int rc = chunk_decoder_place(decoder, false);
	if (rc == 0)
		place_nodes(decoder, !query->without_nodes);
	return rc;
}

static int decode_rows(struct chunk_decoder *decoder, const struct row_query *query)
{
	int rc = place_all_rows(decoder, query);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < decoder->series_count && rc == 0; i++)
		rc = decode_section(decoder, &decoder->sections[i], query);
	return rc;
}

/** Read the head, and make room for rows. *ret_wanted: @query wants any of the chunk's series. */
static int open_chunk(struct chunk_decoder *decoder, struct bytes chunk,
		      const struct row_query *query, bool *ret_wanted)
{
	int rc = chunk_decoder_open(decoder, chunk, query, ret_wanted);

	if (rc < 0 || !*ret_wanted)
		return rc;
	decoder->reads_sums = chunk_has_sums(decoder, query);
	return chunk_decoder_reserve(decoder);
}

int chunk_decode_begin(struct chunk_decoder *decoder, struct bytes chunk,
		       const struct row_query *query, bool *ret_wanted)
{
	int rc = open_chunk(decoder, chunk, query, ret_wanted);

	return rc < 0 || !*ret_wanted ? rc : chunk_decoder_keep(decoder);
}

int chunk_decode_end(struct chunk_decoder *decoder, const struct row_query *query)
{
	return query->detail == SCAN_SUMS ? chunk_decode_sums(decoder, query)
					  : decode_rows(decoder, query);
}

int chunk_decode(struct chunk_decoder *decoder, struct bytes chunk, const struct row_query *query)
{
	bool wanted = false;
	int rc = open_chunk(decoder, chunk, query, &wanted);

	return rc < 0 || !wanted ? rc : chunk_decode_end(decoder, query);
}

int chunk_read_head(struct bytes chunk, struct chunk_head *ret_head)
{
	struct reader reader = { .at = chunk.at, .end = (const uint8_t *)chunk.at + chunk.size };

	reader_varint(&reader); // version
	uint64_t slot_ns = reader_varint(&reader);
	reader_varint(&reader); // scale
	reader_varint(&reader); // series
	uint64_t row_count = reader_varint(&reader);
	if (reader.failed || slot_ns < SLOT_NS_MIN || row_count > CHUNK_ROWS_LIMIT)
		return -EBADMSG;
	*ret_head = (struct chunk_head){ slot_ns, (uint32_t)row_count };
	return 0;
}
