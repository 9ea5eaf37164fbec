// SPDX-License-Identifier: Apache-2.0
// The layout of a run (docs/format.md), in varints: slot_ns, scale, section count; for each section
// series delta, row count and size in bytes; then the sections' rows: slot delta, node, value /
// scale. A run with intervals begins with RUN_INTERVALS, which is shorter than any slot. Its row
// counts are doubled, plus 1 for a section whose rows have a fourth number: more_slots.
#include "collector/store/rocksdb/raw_rows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "collector/store/interval.h"

enum {
	RUN_INTERVALS = 2,
	ROW_BYTES_MAX = 5 + 5 + 10 + 5, // slot delta, node, value, more_slots
};

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static uint64_t zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static uint8_t *encode_section(const struct row *rows, uint32_t count, int64_t scale,
			       bool with_lengths, uint8_t *at)
{
	uint32_t slot = 0;

	for (uint32_t i = 0; i < count; i++) {
		at = put_varint(at, rows[i].slot - slot);
		at = put_varint(at, rows[i].node);
		at = put_varint(at, zigzag(scale == 1 ? rows[i].value : rows[i].value / scale));
		if (with_lengths)
			at = put_varint(at, rows[i].more_slots);
		slot = rows[i].slot;
	}
	return at;
}

static uint32_t section_end(const struct row *rows, uint32_t count, uint32_t first)
{
	uint32_t end = first;

	while (end < count && rows[end].series == rows[first].series)
		end++;
	return end;
}

static uint32_t count_sections(const struct row *rows, uint32_t count)
{
	uint32_t sections = 0;

	for (uint32_t i = 0; i < count; i = section_end(rows, count, i))
		sections++;
	return sections;
}

int raw_rows_encode(const struct row *rows, uint32_t count, uint64_t slot_ns, struct buffer *record)
{
	if (count > RUN_ROWS_MAX)
		return -E2BIG;
	uint64_t scale = rows_scale(rows, count);
	bool any_interval = rows_have_intervals(rows, count);
	uint32_t series = 0;
	_cleanup_free_ uint8_t *body = malloc((size_t)count * ROW_BYTES_MAX + 1);

	if (!body)
		return -ENOMEM;
	if (any_interval)
		buffer_append_varint(record, RUN_INTERVALS);
	buffer_append_varint(record, slot_ns);
	buffer_append_varint(record, scale);
	buffer_append_varint(record, count_sections(rows, count));
	uint8_t *at = body;
	for (uint32_t i = 0, end; i < count; i = end) {
		uint8_t *start = at;

		end = section_end(rows, count, i);
		bool with_lengths = any_interval && rows_have_intervals(rows + i, end - i);
		at = encode_section(rows + i, end - i, (int64_t)scale, with_lengths, at);
		buffer_append_varint(record, rows[i].series - series);
		buffer_append_varint(record,
				     any_interval ? 2ULL * (end - i) + with_lengths : end - i);
		buffer_append_varint(record, (uint64_t)(at - start));
		series = rows[i].series;
	}
	buffer_append(record, body, (size_t)(at - body));
	return record->rc;
}

static int read_directory(struct reader *reader, bool any_interval, struct raw_rows *rows)
{
	uint64_t series = 0, offset = 0, row_count = 0;

	for (uint32_t i = 0; i < rows->section_count; i++) {
		uint64_t delta = reader_varint(reader), count = reader_varint(reader);
		uint64_t size = reader_varint(reader);
		bool with_lengths = any_interval && count % 2;

		count = any_interval ? count / 2 : count;
		if (reader->failed || delta > UINT32_MAX || count > RUN_ROWS_LIMIT ||
		    size > UINT32_MAX || count * 3 > size)
			return -EBADMSG;
		series += delta;
		rows->sections[i] = (struct raw_section){ (uint32_t)series, (uint32_t)count,
							  (uint32_t)offset, with_lengths };
		offset += size;
		row_count += count;
		if (series > UINT32_MAX || offset > UINT32_MAX || row_count > UINT32_MAX)
			return -EBADMSG;
	}
	if (offset != reader_left(reader))
		return -EBADMSG;
	rows->rows = (struct bytes){ reader->at, offset };
	rows->row_count = (uint32_t)row_count;
	return 0;
}

int raw_rows_open(struct bytes record, struct raw_rows *ret_rows)
{
	struct reader reader = { .at = record.at, .end = (const uint8_t *)record.at + record.size };
	struct raw_rows rows = { .slot_ns = reader_varint(&reader) };
	bool any_interval = rows.slot_ns == RUN_INTERVALS;

	if (any_interval)
		rows.slot_ns = reader_varint(&reader);
	rows.scale = reader_varint(&reader);
	uint64_t section_count = reader_varint(&reader);
	if (reader.failed || section_count * 3 > reader_left(&reader) ||
	    section_count > RUN_ROWS_LIMIT || rows.slot_ns < SLOT_NS_MIN ||
	    rows.slot_ns > MINUTE_NS)
		return -EBADMSG;

	rows.section_count = (uint32_t)section_count;
	rows.sections = malloc(section_count * sizeof(*rows.sections) + 1);
	if (!rows.sections)
		return -ENOMEM;
	int rc = read_directory(&reader, any_interval, &rows);
	if (rc < 0) {
		raw_rows_deinit(&rows);
		return rc;
	}
	*ret_rows = rows;
	return 0;
}

void raw_rows_deinit(struct raw_rows *rows)
{
	free(rows->sections);
	*rows = (struct raw_rows){ 0 };
}

static struct reader section_reader(const struct raw_rows *rows, uint32_t section)
{
	const uint8_t *at = rows->rows.at;
	uint32_t end = section + 1 < rows->section_count ? rows->sections[section + 1].offset
							 : (uint32_t)rows->rows.size;

	return (struct reader){ .at = at + rows->sections[section].offset, .end = at + end };
}

/** Add the delta at @reader to @slot of the minute, which stays below MINUTE_SLOTS_MAX or the reader fails. */
static inline void add_slot_delta(struct reader *reader, uint64_t *slot)
{
	uint64_t delta = reader_varint(reader);

	if (delta < MINUTE_SLOTS_MAX - *slot)
		*slot += delta;
	else
		reader->failed = true;
}

int raw_rows_read(const struct raw_rows *rows, uint32_t section, struct row *to)
{
	const struct raw_section *directory = &rows->sections[section];
	struct reader reader = section_reader(rows, section);
	uint64_t slot = 0;

	for (uint32_t i = 0; i < directory->count; i++) {
		add_slot_delta(&reader, &slot);
		uint64_t node = reader_varint(&reader);
		int64_t value = reader_svarint(&reader);
		uint64_t more_slots = directory->has_intervals ? reader_varint(&reader) : 0;

		if (reader.failed || node > UINT32_MAX || more_slots >= MINUTE_SLOTS_MAX - slot)
			return -EBADMSG;
		to[i] = (struct row){ .series = directory->series,
				      .slot = (uint32_t)slot,
				      .node = (uint32_t)node,
				      .more_slots = (uint32_t)more_slots,
				      .value = (int64_t)((uint64_t)value * rows->scale) };
	}
	return 0;
}

/** Copy the section's rows in the range to @scratch. Returns how many, or -EBADMSG. */
static int64_t keep_rows(const struct raw_rows *rows, uint32_t section,
			 const struct row_query *query, struct row_columns *scratch)
{
	uint32_t count = rows->sections[section].count, kept = 0;
	struct reader reader = section_reader(rows, section);
	uint64_t in_minute = 0;

	for (uint32_t i = 0; i < count; i++) {
		add_slot_delta(&reader, &in_minute);
		uint64_t slot = query->first_slot + in_minute;

		scratch->slots[kept] = slot;
		scratch->nodes[kept] = (uint32_t)reader_varint(&reader);
		scratch->values[kept] = (int64_t)((uint64_t)reader_svarint(&reader) * rows->scale);
		kept += row_query_has(query, slot, slot);
	}
	return reader.failed ? -EBADMSG : (int64_t)kept;
}

/** keep_rows() of intervals: one that begins before the range may reach into it. */
static int64_t keep_intervals(const struct raw_rows *rows, uint32_t section,
			      const struct row_query *query, struct row_columns *scratch)
{
	uint32_t count = rows->sections[section].count, kept = 0;
	struct reader reader = section_reader(rows, section);
	uint64_t in_minute = 0;

	for (uint32_t i = 0; i < count; i++) {
		add_slot_delta(&reader, &in_minute);
		uint64_t slot = query->first_slot + in_minute;
		uint64_t node = reader_varint(&reader);
		int64_t value = (int64_t)((uint64_t)reader_svarint(&reader) * rows->scale);
		uint64_t more_slots = reader_varint(&reader);

		if (reader.failed || more_slots >= MINUTE_SLOTS_MAX - in_minute)
			return -EBADMSG;
		scratch->slots[kept] = slot;
		scratch->nodes[kept] = (uint32_t)node;
		scratch->more_slots[kept] = (uint32_t)more_slots;
		scratch->values[kept] =
			query->detail == SCAN_ROWS
				? value
				: row_query_part(query, slot, (uint32_t)more_slots, value);
		kept += row_query_has(query, slot, slot + more_slots);
	}
	return kept;
}

static int scan_section(const struct raw_rows *rows, uint32_t section, uint32_t number,
			const struct row_query *query, struct row_columns *scratch)
{
	bool with_lengths = rows->sections[section].has_intervals;
	int rc = row_columns_reserve(scratch, rows->sections[section].count);

	if (rc < 0)
		return rc;
	int64_t kept = with_lengths ? keep_intervals(rows, section, query, scratch)
				    : keep_rows(rows, section, query, scratch);
	if (kept <= 0)
		return (int)kept;

	bool with_slots = query->detail == SCAN_ROWS;
	struct store_rows found = { .series = query->detail == SCAN_SUMS ? 0 : number,
				    .slot_ns = rows->slot_ns,
				    .count = (uint32_t)kept,
				    .slots = with_slots ? scratch->slots : NULL,
				    .more_slots =
					    with_slots && with_lengths ? scratch->more_slots : NULL,
				    .nodes = query->without_nodes ? NULL : scratch->nodes,
				    .values = scratch->values };
	return query->rows(query->context, &found);
}

int raw_rows_scan(const struct raw_rows *rows, const struct row_query *query,
		  struct row_columns *scratch)
{
	int rc = 0;

	for (uint32_t i = 0; i < rows->section_count && rc == 0; i++) {
		uint32_t number = row_query_number(query, rows->sections[i].series);

		if (number != SERIES_UNWANTED)
			rc = scan_section(rows, i, number, query, scratch);
	}
	return rc;
}
