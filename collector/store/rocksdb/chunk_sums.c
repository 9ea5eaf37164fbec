// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/chunk_sums.h"

#include <string.h>

#include "base/cleanup.h"

/** Mark the positions of a section in the range. Returns how many. */
static uint32_t mark_slots(struct chunk_decoder *decoder, const struct chunk_section *section,
			   const struct row_query *query)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint64_t slot = query->first_slot;
	uint32_t marked = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += chunk_read_number(reader);
		decoder->wanted[i] = row_query_has(query, slot, slot);
		marked += decoder->wanted[i];
	}
	return marked;
}

/** mark_slots() of a chunk with lengths. Returns -EBADMSG if a slot is not one of the chunk's minutes. */
static int mark_intervals(struct chunk_decoder *decoder, const struct chunk_section *section,
			  const struct row_query *query)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint32_t more_slots, marked = 0;
	uint64_t slot = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += chunk_read_number(reader);
		if (chunk_read_length(decoder, slot, &more_slots) < 0)
			return -EBADMSG;
		uint64_t first = query->first_slot + slot, last = first + more_slots;
		decoder->wanted[i] = row_query_has(query, first, last);
		marked += decoder->wanted[i];
		decoder->cuts |= decoder->wanted[i] && !row_query_has_all(query, first, last);
	}
	return (int)marked;
}

/** Mark the positions of wanted series in the range. *ret_any: there are such. */
static int mark_wanted(struct chunk_decoder *decoder, const struct row_query *query, bool *ret_any)
{
	const struct reader *slots = &decoder->readers[COLUMN_SLOTS];
	const struct reader *lengths = &decoder->readers[COLUMN_LENGTHS];
	uint32_t marked = 0;

	decoder->cuts = false;
	for (uint32_t i = 0; i < decoder->series_count; i++) {
		const struct chunk_section *section = &decoder->sections[i];
		int count = decoder->with_lengths ? mark_intervals(decoder, section, query)
						  : (int)mark_slots(decoder, section, query);

		if (count < 0)
			return count;
		if (row_query_number(query, section->series) == SERIES_UNWANTED)
			memset(decoder->wanted + section->first, 0, section->count);
		else
			marked += (uint32_t)count;
	}
	decoder->all_wanted = marked == decoder->position_count;
	*ret_any = marked > 0;
	return slots->failed || (decoder->with_lengths && lengths->failed) ? -EBADMSG : 0;
}

/** Cut the values of a position's rows to their part in the range. */
static void cut_values(struct chunk_decoder *decoder, uint32_t position, uint64_t slot,
		       uint32_t more_slots, const struct row_query *query)
{
	int64_t *values = decoder->rows.values;

	for (uint32_t row = decoder->ends[position]; row < decoder->ends[position + 1]; row++)
		values[row] = row_query_part(query, slot, more_slots, values[row]);
}

/** Cut the values of wanted intervals that reach out of the range. Their slots were read before, by mark_wanted(). */
static void cut_intervals(struct chunk_decoder *decoder, const struct row_query *query)
{
	struct chunk_unpacked *columns = decoder->columns;
	struct reader slots = { columns[COLUMN_SLOTS].unpacked,
				columns[COLUMN_SLOTS].unpacked + columns[COLUMN_SLOTS].size,
				false };
	struct reader lengths = { columns[COLUMN_LENGTHS].unpacked,
				  columns[COLUMN_LENGTHS].unpacked + columns[COLUMN_LENGTHS].size,
				  false };

	for (uint32_t i = 0; i < decoder->series_count; i++) {
		const struct chunk_section *section = &decoder->sections[i];
		uint64_t slot = query->first_slot;

		for (uint32_t j = section->first; j < section->first + section->count; j++) {
			slot += chunk_read_number(&slots);
			uint32_t more_slots = (uint32_t)chunk_read_number(&lengths);
			if (decoder->wanted[j] &&
			    !row_query_has_all(query, slot, slot + more_slots))
				cut_values(decoder, j, slot, more_slots, query);
		}
	}
}

/** Sum each node's wanted values where they lie: sums need no order of rows. */
static void sum_values(struct chunk_decoder *decoder)
{
	const uint32_t *position = decoder->positions;

	for (uint32_t i = 0; i < decoder->run_count; i++) {
		uint64_t sum = 0;

		for (uint32_t j = 0; j < decoder->runs[i].count; j++)
			sum += (uint64_t)decoder->rows.values[decoder->ends[*position++]++];
		decoder->rows.nodes[i] = decoder->runs[i].node;
		decoder->sums[i] = (int64_t)sum;
	}
}

/** sum_values() by the values' codes, none of which is VALUE_ESCAPE: they stay in the CPU's nearest cache. */
static int sum_codes(struct chunk_decoder *decoder)
{
	const uint8_t *codes = reader_bytes(&decoder->readers[COLUMN_VALUES], decoder->row_count);
	const uint32_t *position = decoder->positions;
	uint32_t largest = 0;

	if (!codes)
		return -EBADMSG;
	for (uint32_t i = 0; i < decoder->run_count; i++) {
		uint64_t sum = 0;

		for (uint32_t j = 0; j < decoder->runs[i].count; j++) {
			uint32_t code = codes[decoder->ends[*position++]++];

			largest = code > largest ? code : largest;
			sum += (uint64_t)decoder->palette[code];
		}
		decoder->rows.nodes[i] = decoder->runs[i].node;
		decoder->sums[i] = (int64_t)sum;
	}
	return largest < decoder->palette_count ? 0 : -EBADMSG;
}

static int sum_nodes(struct chunk_decoder *decoder, const struct row_query *query)
{
	if (!decoder->columns[COLUMN_ESCAPES].size && !decoder->cuts)
		return sum_codes(decoder);

	int rc = chunk_decoder_read_values(decoder, 0, decoder->row_count);

	if (rc < 0)
		return rc;
	if (decoder->cuts)
		cut_intervals(decoder, query);
	sum_values(decoder);
	return 0;
}

/** Unpack the columns that say which rows are wanted, for sums. *ret_any: some are. */
static int select_rows(struct chunk_decoder *decoder, const struct row_query *query, bool *ret_any)
{
	int rc = chunk_decoder_unpack(decoder, COLUMN_SLOTS);

	if (rc == 0 && decoder->with_lengths)
		rc = chunk_decoder_unpack(decoder, COLUMN_LENGTHS);
	return rc ? rc : mark_wanted(decoder, query, ret_any);
}

/** Does the query want each row of the chunk? */
static bool wants_all(const struct chunk_decoder *decoder, const struct row_query *query)
{
	uint64_t length_ns = decoder->minutes * MINUTE_NS;
	uint64_t end_slot = query->first_slot + length_ns / decoder->slot_ns +
			    (length_ns % decoder->slot_ns > 0);

	if (!row_query_has_all(query, query->first_slot, end_slot - 1))
		return false;
	for (uint32_t i = 0; i < decoder->series_count; i++)
		if (row_query_number(query, decoder->sections[i].series) == SERIES_UNWANTED)
			return false;
	return true;
}

/** Read the sums of all rows. */
static int read_sums(struct chunk_decoder *decoder)
{
	static const enum chunk_column columns[] = { COLUMN_NODES, COLUMN_COUNTS, COLUMN_SUMS };
	struct reader *nodes = &decoder->readers[COLUMN_NODES];
	struct reader *counts = &decoder->readers[COLUMN_COUNTS];
	struct reader *sums = &decoder->readers[COLUMN_SUMS];
	uint64_t node = 0, row = 0;
	uint32_t found = 0;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns) && rc == 0; i++)
		rc = chunk_decoder_unpack(decoder, columns[i]);
	if (rc < 0)
		return rc;
	uint64_t mean = (uint64_t)reader_svarint(sums);
	for (; row < decoder->row_count; found++) {
		node += chunk_read_number(nodes);
		uint64_t count = chunk_read_number(counts) + 1;
		uint64_t rest = (uint64_t)chunk_read_signed(sums);
		if (nodes->failed || counts->failed || sums->failed || node > UINT32_MAX ||
		    count == 0 || count > decoder->row_count - row)
			return -EBADMSG;
		decoder->rows.nodes[found] = (uint32_t)node;
		decoder->sums[found] = (int64_t)((mean * count + rest) * decoder->scale);
		row += count;
	}
	decoder->run_count = found;
	return 0;
}

/** Sum the rows that are wanted. */
static int sum_rows(struct chunk_decoder *decoder, const struct row_query *query)
{
	bool any = false;
	int rc = select_rows(decoder, query, &any);

	decoder->run_count = 0;
	if (rc < 0 || !any)
		return rc;
	rc = chunk_decoder_place(decoder, true);
	return rc ? rc : sum_nodes(decoder, query);
}

bool chunk_has_sums(const struct chunk_decoder *decoder, const struct row_query *query)
{
	return query->detail == SCAN_SUMS && decoder->with_sums && wants_all(decoder, query);
}

int chunk_decode_sums(struct chunk_decoder *decoder, const struct row_query *query)
{
	int rc = decoder->reads_sums ? read_sums(decoder) : sum_rows(decoder, query);
	const struct store_rows found = { .slot_ns = decoder->slot_ns,
					  .count = decoder->run_count,
					  .nodes = decoder->rows.nodes,
					  .values = decoder->sums };
	return rc || !found.count ? rc : query->rows(query->context, &found);
}
