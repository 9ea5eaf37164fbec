// SPDX-License-Identifier: Apache-2.0
// RocksDB checks the checksums of its files; still, every number is checked here. A damaged chunk
// must end in -EBADMSG, not in an access out of bounds.
#include "collector/store/rocksdb/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "collector/store/rocksdb/chunk_format.h"

enum {
	COLUMN_PADDING = 8, // bits are read eight bytes at a time
};

struct column {
	struct bytes packed;
	size_t size; // unpacked
	bool is_packed;
	uint8_t *unpacked;
	size_t capacity;
};

/** A series: positions [first, first + count). */
struct section {
	uint32_t series, first, count;
};

/** A node and how many rows it has. */
struct node_run {
	uint32_t node, count;
};

/** What a width adds to a distance: the highest bit, and the mask of those below, which are stored. */
struct distance_width {
	uint32_t highest, mask, bits;
};

struct chunk_decoder {
	ZSTD_DCtx *zstd;
	struct distance_width widths[CHUNK_CLASSES + 1];
	struct column columns[COLUMN_COUNT];
	struct reader readers[COLUMN_COUNT];
	int64_t palette[PALETTE_MAX + 1]; // by any code
	uint32_t palette_count;
	uint64_t slot_ns, scale;
	uint64_t slots_max; // of the chunk's minutes
	uint64_t present;   // a bit for each column that is not empty
	bool with_lengths, with_sums;
	int column_count;
	uint32_t minutes;   // that the rows lie in
	uint64_t last_slot; // that an interval of the section being read covers
	uint32_t series_count, row_count, position_count;
	struct section *sections;
	uint32_t section_capacity;
	struct row_columns rows; // by (position, node)
	struct node_run *runs;
	uint32_t run_count;
	uint32_t *positions; // per row, by (node, position); for sums, of wanted rows
	uint32_t *ends;      // per position + 1: its rows, then their start, then their end
	bool *wanted;        // per position, for sums
	bool all_wanted;     // for sums
	bool cuts;           // for sums, intervals that the range cuts are wanted
	int64_t *sums;       // per node with wanted rows
	uint32_t capacity;   // of these, in rows
};

struct chunk_decoder *chunk_decoder_new(void)
{
	struct chunk_decoder *decoder = calloc(1, sizeof(*decoder));

	if (decoder && !(decoder->zstd = ZSTD_createDCtx())) {
		free(decoder);
		return NULL;
	}
	for (uint32_t i = 1; decoder && i <= CHUNK_CLASSES; i++)
		decoder->widths[i] =
			(struct distance_width){ 1U << (i - 1), (1U << (i - 1)) - 1, i - 1 };
	return decoder;
}

static void free_rows(struct chunk_decoder *decoder)
{
	free(decoder->runs);
	free(decoder->positions);
	free(decoder->ends);
	free(decoder->wanted);
	free(decoder->sums);
	decoder->runs = NULL;
	decoder->positions = decoder->ends = NULL;
	decoder->wanted = NULL;
	decoder->sums = NULL;
	decoder->capacity = 0;
}

void chunk_decoder_freep(struct chunk_decoder **at)
{
	struct chunk_decoder *decoder = *at;

	if (!decoder)
		return;
	ZSTD_freeDCtx(decoder->zstd);
	for (int i = 0; i < COLUMN_COUNT; i++)
		free(decoder->columns[i].unpacked);
	row_columns_deinit(&decoder->rows);
	free(decoder->sections);
	free_rows(decoder);
	free(decoder);
}

// ---- head and columns -------------------------------------------------------------------------------

static int read_palette(struct chunk_decoder *decoder, struct reader *reader)
{
	uint64_t count = reader_varint(reader), value = 0;

	if (reader->failed || count > PALETTE_MAX)
		return -EBADMSG;
	for (uint64_t i = 0; i < count; i++) {
		value += (uint64_t)reader_svarint(reader);
		decoder->palette[i] = (int64_t)(value * decoder->scale);
	}
	decoder->palette_count = (uint32_t)count;
	return 0;
}

/** Read what versions from CHUNK_VERSION_SPAN on have of their minutes and columns. */
static int read_span(struct chunk_decoder *decoder, uint64_t version, struct reader *reader)
{
	bool is_span = version >= CHUNK_VERSION_SPAN;
	uint64_t minutes = is_span ? reader_varint(reader) : 1;

	decoder->present = is_span ? reader_varint(reader) : UINT64_MAX;
	if (reader->failed || !minutes || minutes > CHUNK_MINUTES_MAX)
		return -EBADMSG;
	decoder->slots_max = minutes * MINUTE_SLOTS_MAX;
	decoder->minutes = (uint32_t)minutes;
	decoder->with_sums = version >= CHUNK_VERSION_SUMS;
	decoder->with_lengths = decoder->with_sums ? decoder->present >> COLUMN_LENGTHS & 1
						   : chunk_version_has_lengths(version);
	decoder->column_count =
		decoder->with_sums ? COLUMN_COUNT : chunk_column_count(decoder->with_lengths);
	return 0;
}

static int read_head(struct chunk_decoder *decoder, struct reader *reader)
{
	uint64_t version = reader_varint(reader);

	decoder->slot_ns = reader_varint(reader);
	decoder->scale = reader_varint(reader);
	uint64_t series_count = reader_varint(reader), row_count = reader_varint(reader);
	if (reader->failed || version < CHUNK_VERSION || version > CHUNK_VERSION_SUMS ||
	    decoder->slot_ns < SLOT_NS_MIN || row_count > CHUNK_ROWS_LIMIT ||
	    series_count > row_count)
		return -EBADMSG;
	decoder->series_count = (uint32_t)series_count;
	decoder->row_count = (uint32_t)row_count;
	int rc = read_palette(decoder, reader);
	return rc ? rc : read_span(decoder, version, reader);
}

static int read_columns(struct chunk_decoder *decoder, struct reader *reader)
{
	if (decoder->present != UINT64_MAX && decoder->present >> decoder->column_count)
		return -EBADMSG;
	for (int i = 0; i < decoder->column_count; i++) {
		struct column *column = &decoder->columns[i];
		bool is_present = decoder->present >> i & 1;
		uint64_t size = is_present ? reader_varint(reader) : 0;
		uint64_t packed = is_present ? reader_varint(reader) : 0;

		if (reader->failed || size > COLUMN_BYTES_MAX)
			return -EBADMSG;
		column->size = size;
		column->is_packed = packed > 0;
		column->packed.size = packed ? packed : size;
	}
	for (int i = 0; i < decoder->column_count; i++) {
		struct column *column = &decoder->columns[i];

		column->packed.at = reader_bytes(reader, column->packed.size);
		if (!column->packed.at)
			return -EBADMSG;
	}
	return reader_left(reader) ? -EBADMSG : 0;
}

static int reserve_column(struct column *column)
{
	size_t wanted = column->size + COLUMN_PADDING;

	if (wanted <= column->capacity)
		return 0;
	free(column->unpacked);
	column->capacity = 0;
	column->unpacked = malloc(wanted);
	if (!column->unpacked)
		return -ENOMEM;
	column->capacity = wanted;
	return 0;
}

static int unpack_column(struct chunk_decoder *decoder, enum chunk_column number)
{
	struct column *column = &decoder->columns[number];
	int rc = reserve_column(column);

	if (rc < 0)
		return rc;
	if (!column->is_packed)
		memcpy(column->unpacked, column->packed.at, column->size);
	else if (ZSTD_decompressDCtx(decoder->zstd, column->unpacked, column->size,
				     column->packed.at, column->packed.size) != column->size)
		return -EBADMSG;
	memset(column->unpacked + column->size, 0, COLUMN_PADDING);
	decoder->readers[number] =
		(struct reader){ .at = column->unpacked, .end = column->unpacked + column->size };
	return 0;
}

/** reader_varint(), without a call for numbers of one byte, which most are, two or three. */
static inline uint64_t read_number(struct reader *reader)
{
	const uint8_t *at = reader->at;

	if (!reader->failed && reader->end - at >= 3) {
		if (at[0] < 0x80) {
			reader->at = at + 1;
			return at[0];
		}
		if (at[1] < 0x80) {
			reader->at = at + 2;
			return (at[0] & 0x7fU) | (uint64_t)at[1] << 7;
		}
		if (at[2] < 0x80) {
			reader->at = at + 3;
			return (at[0] & 0x7fU) | (at[1] & 0x7fU) << 7 | (uint64_t)at[2] << 14;
		}
	}
	return reader_varint(reader);
}

/** reader_svarint(), as read_number(). */
static inline int64_t read_signed(struct reader *reader)
{
	uint64_t number = read_number(reader);

	return (int64_t)(number >> 1 ^ (0 - (number & 1)));
}

// ---- positions --------------------------------------------------------------------------------------

static int reserve_rows(struct chunk_decoder *decoder)
{
	uint32_t count = decoder->row_count;
	int rc = row_columns_reserve(&decoder->rows, count);

	if (rc < 0 || count <= decoder->capacity)
		return rc;
	free_rows(decoder);
	decoder->runs = malloc(count * sizeof(*decoder->runs));
	decoder->positions = malloc(count * sizeof(*decoder->positions));
	decoder->ends = malloc((count + 1ULL) * sizeof(*decoder->ends));
	decoder->wanted = malloc(count * sizeof(*decoder->wanted));
	decoder->sums = malloc(count * sizeof(*decoder->sums));
	if (!decoder->runs || !decoder->positions || !decoder->ends || !decoder->wanted ||
	    !decoder->sums) {
		free_rows(decoder);
		return -ENOMEM;
	}
	decoder->capacity = count;
	return 0;
}

/** *ret_wanted: any of the chunk's series is wanted. */
static int read_directory(struct chunk_decoder *decoder, const struct row_query *query,
			  bool *ret_wanted)
{
	struct reader *reader = &decoder->readers[COLUMN_DIRECTORY];
	uint64_t series = 0, positions = 0;
	int rc = array_reserve(&decoder->sections, sizeof(*decoder->sections),
			       &decoder->section_capacity, 0, decoder->series_count,
			       CHUNK_ROWS_LIMIT);

	*ret_wanted = false;
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < decoder->series_count; i++) {
		series += read_number(reader);
		uint64_t count = read_number(reader);
		if (reader->failed || series > UINT32_MAX || count > decoder->row_count ||
		    positions + count > decoder->row_count)
			return -EBADMSG;
		decoder->sections[i] =
			(struct section){ (uint32_t)series, (uint32_t)positions, (uint32_t)count };
		positions += count;
		*ret_wanted |= row_query_number(query, (uint32_t)series) != SERIES_UNWANTED;
	}
	decoder->position_count = (uint32_t)positions;
	return 0;
}

/** Are all widths in range, and as many bits there as they stand for? */
static int check_widths(const struct chunk_decoder *decoder)
{
	uint64_t bits = 0;
	uint32_t widest = 0;

	for (uint32_t i = 0; i < CHUNK_CLASSES; i++) {
		const struct column *column = &decoder->columns[COLUMN_CLASSES + i];

		for (size_t j = 0; j < column->size; j++) {
			uint32_t width = column->unpacked[j];

			widest = width > widest ? width : widest;
			bits += width - (width > 0);
		}
	}
	return widest > CHUNK_CLASSES || bits > decoder->columns[COLUMN_BITS].size * 8 ? -EBADMSG
										       : 0;
}

/**
 * Read the positions of one node's rows, and count the rows per position in ends. Keep those that are @wanted (NULL:
 * all). Returns how many; -EBADMSG.
 */
static inline int read_positions(struct chunk_decoder *decoder, uint32_t count, uint64_t *bit,
				 const bool *wanted, uint32_t *ret_positions)
{
	uint32_t class = chunk_class(decoder->position_count, count), kept = 0;
	const uint8_t *widths = reader_bytes(&decoder->readers[COLUMN_CLASSES + class], count);
	const uint8_t *bits = decoder->columns[COLUMN_BITS].unpacked;
	uint64_t position = 0, at = *bit;
	uint32_t *counts = decoder->ends + 1;

	if (!widths)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		const struct distance_width *width = &decoder->widths[widths[i]];
		uint64_t word;

		memcpy(&word, bits + at / 8, sizeof(word));
		position += width->highest | (word >> (at % 8) & width->mask);
		at += width->bits;
		if (position >= decoder->position_count)
			return -EBADMSG;
		counts[position]++;
		ret_positions[kept] = (uint32_t)position;
		kept += !wanted || wanted[position];
		position++;
	}
	*bit = at;
	return (int)kept;
}

/** Read the nodes that have wanted rows. */
static inline int read_runs(struct chunk_decoder *decoder, const bool *wanted)
{
	struct reader *nodes = &decoder->readers[COLUMN_NODES];
	struct reader *counts = &decoder->readers[COLUMN_COUNTS];
	uint32_t *positions = decoder->positions;
	uint64_t node = 0, bit = 0;

	for (uint32_t row = 0; row < decoder->row_count;) {
		node += read_number(nodes);
		uint64_t count = read_number(counts) + 1;
		if (nodes->failed || counts->failed || node > UINT32_MAX || count == 0 ||
		    count > decoder->position_count || count > decoder->row_count - row)
			return -EBADMSG;
		int kept = read_positions(decoder, (uint32_t)count, &bit, wanted, positions);
		if (kept < 0)
			return kept;
		decoder->runs[decoder->run_count] =
			(struct node_run){ (uint32_t)node, (uint32_t)kept };
		decoder->run_count += kept > 0;
		positions += kept;
		row += (uint32_t)count;
	}
	return 0;
}

static int read_nodes(struct chunk_decoder *decoder)
{
	int rc = check_widths(decoder);

	memset(decoder->ends, 0, (decoder->position_count + 1ULL) * sizeof(*decoder->ends));
	decoder->run_count = 0;
	if (rc < 0)
		return rc;
	return decoder->all_wanted ? read_runs(decoder, NULL) : read_runs(decoder, decoder->wanted);
}

/** Turn ends from rows per position into the start of each position's rows. */
static void place_positions(struct chunk_decoder *decoder)
{
	uint32_t *ends = decoder->ends;

	for (uint32_t i = 0; i < decoder->position_count; i++)
		ends[i + 1] += ends[i];
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

/** Read the next position's more_slots; its slots must lie in the chunk's minutes. */
static inline int read_length(struct chunk_decoder *decoder, uint64_t slot, uint32_t *ret_more)
{
	uint64_t more_slots = read_number(&decoder->readers[COLUMN_LENGTHS]);

	if (slot >= decoder->slots_max || more_slots >= decoder->slots_max - slot)
		return -EBADMSG;
	*ret_more = (uint32_t)more_slots;
	return 0;
}

static int read_slots(struct chunk_decoder *decoder, const struct section *section,
		      uint64_t first_slot)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint32_t row = row_at(decoder, section->first);
	uint64_t slot = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += read_number(reader);
		if (slot >= decoder->slots_max)
			return -EBADMSG;
		for (; row < decoder->ends[i]; row++)
			decoder->rows.slots[row] = first_slot + slot;
	}
	return reader->failed ? -EBADMSG : 0;
}

/** read_slots() of a chunk with lengths. */
static int read_intervals(struct chunk_decoder *decoder, const struct section *section,
			  uint64_t first_slot)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint32_t row = row_at(decoder, section->first), more_slots;
	uint64_t slot = 0, last = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += read_number(reader);
		if (read_length(decoder, slot, &more_slots) < 0)
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

static int read_values(struct chunk_decoder *decoder, uint32_t first, uint32_t count)
{
	const uint8_t *codes = reader_bytes(&decoder->readers[COLUMN_VALUES], count);
	struct reader *escapes = &decoder->readers[COLUMN_ESCAPES];
	int64_t *values = decoder->rows.values + first;

	if (!codes)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t code = codes[i];

		if (code < decoder->palette_count)
			values[i] = decoder->palette[code];
		else if (code == VALUE_ESCAPE)
			values[i] = (int64_t)((uint64_t)read_signed(escapes) * decoder->scale);
		else
			return -EBADMSG;
	}
	return escapes->failed ? -EBADMSG : 0;
}

static int skip_section(struct chunk_decoder *decoder, const struct section *section,
			uint32_t row_count)
{
	struct reader *slots = &decoder->readers[COLUMN_SLOTS];
	struct reader *escapes = &decoder->readers[COLUMN_ESCAPES];
	const uint8_t *codes = reader_bytes(&decoder->readers[COLUMN_VALUES], row_count);

	if (!codes)
		return -EBADMSG;
	for (uint32_t i = 0; i < section->count; i++)
		read_number(slots);
	for (uint32_t i = 0; decoder->with_lengths && i < section->count; i++)
		read_number(&decoder->readers[COLUMN_LENGTHS]);
	for (uint32_t i = 0; i < row_count; i++)
		if (codes[i] == VALUE_ESCAPE)
			read_number(escapes);
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

static int decode_section(struct chunk_decoder *decoder, const struct section *section,
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
		rc = read_values(decoder, first, count);
	if (rc == 0 && count)
		rc = pass_section(decoder, first, count, number, query);
	return rc;
}

// ---- sums per node --------------------------------------------------------------------------------

/** Mark the positions of a section in the range. Returns how many. */
static uint32_t mark_slots(struct chunk_decoder *decoder, const struct section *section,
			   const struct row_query *query)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint64_t slot = query->first_slot;
	uint32_t marked = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += read_number(reader);
		decoder->wanted[i] = row_query_has(query, slot, slot);
		marked += decoder->wanted[i];
	}
	return marked;
}

/** mark_slots() of a chunk with lengths. Returns -EBADMSG if a slot is not one of the chunk's minutes. */
static int mark_intervals(struct chunk_decoder *decoder, const struct section *section,
			  const struct row_query *query)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint32_t more_slots, marked = 0;
	uint64_t slot = 0;

	for (uint32_t i = section->first; i < section->first + section->count; i++) {
		slot += read_number(reader);
		if (read_length(decoder, slot, &more_slots) < 0)
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
		const struct section *section = &decoder->sections[i];
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
	struct column *columns = decoder->columns;
	struct reader slots = { columns[COLUMN_SLOTS].unpacked,
				columns[COLUMN_SLOTS].unpacked + columns[COLUMN_SLOTS].size,
				false };
	struct reader lengths = { columns[COLUMN_LENGTHS].unpacked,
				  columns[COLUMN_LENGTHS].unpacked + columns[COLUMN_LENGTHS].size,
				  false };

	for (uint32_t i = 0; i < decoder->series_count; i++) {
		const struct section *section = &decoder->sections[i];
		uint64_t slot = query->first_slot;

		for (uint32_t j = section->first; j < section->first + section->count; j++) {
			slot += read_number(&slots);
			uint32_t more_slots = (uint32_t)read_number(&lengths);
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

	int rc = read_values(decoder, 0, decoder->row_count);

	if (rc < 0)
		return rc;
	if (decoder->cuts)
		cut_intervals(decoder, query);
	sum_values(decoder);
	return 0;
}

// ---- the chunk --------------------------------------------------------------------------------------

static int open_chunk(struct chunk_decoder *decoder, struct bytes chunk,
		      const struct row_query *query, bool *ret_wanted)
{
	struct reader reader = { .at = chunk.at, .end = (const uint8_t *)chunk.at + chunk.size };
	int rc = read_head(decoder, &reader);

	if (rc == 0)
		rc = read_columns(decoder, &reader);
	if (rc == 0)
		rc = unpack_column(decoder, COLUMN_DIRECTORY);
	return rc ? rc : read_directory(decoder, query, ret_wanted);
}

/** Unpack the columns that say which rows are wanted, for sums. *ret_any: some are. */
static int select_rows(struct chunk_decoder *decoder, const struct row_query *query, bool *ret_any)
{
	int rc = unpack_column(decoder, COLUMN_SLOTS);

	if (rc == 0 && decoder->with_lengths)
		rc = unpack_column(decoder, COLUMN_LENGTHS);
	return rc ? rc : mark_wanted(decoder, query, ret_any);
}

/** Unpack the other columns, and find each row's place. */
static int place_rows(struct chunk_decoder *decoder, bool slots_are_read)
{
	int rc = 0;

	for (int i = COLUMN_SLOTS; i < decoder->column_count && rc == 0; i++)
		if (i != COLUMN_SUMS &&
		    (!slots_are_read || (i != COLUMN_SLOTS && i != COLUMN_LENGTHS)))
			rc = unpack_column(decoder, (enum chunk_column)i);
	if (rc == 0)
		rc = read_nodes(decoder);
	if (rc == 0)
		place_positions(decoder);
	return rc;
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
		rc = unpack_column(decoder, columns[i]);
	if (rc < 0)
		return rc;
	uint64_t mean = (uint64_t)reader_svarint(sums);
	for (; row < decoder->row_count; found++) {
		node += read_number(nodes);
		uint64_t count = read_number(counts) + 1;
		uint64_t rest = (uint64_t)read_signed(sums);
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
	rc = place_rows(decoder, true);
	return rc ? rc : sum_nodes(decoder, query);
}

static int decode_sums(struct chunk_decoder *decoder, const struct row_query *query)
{
	int rc = decoder->with_sums && wants_all(decoder, query) ? read_sums(decoder)
								 : sum_rows(decoder, query);
	const struct store_rows found = { .slot_ns = decoder->slot_ns,
					  .count = decoder->run_count,
					  .nodes = decoder->rows.nodes,
					  .values = decoder->sums };
	return rc || !found.count ? rc : query->rows(query->context, &found);
}

/** place_rows() of a chunk that has one row in each position, for a reader without nodes: their columns stay packed. */
static int place_single_rows(struct chunk_decoder *decoder)
{
	static const enum chunk_column columns[] = { COLUMN_SLOTS, COLUMN_VALUES, COLUMN_ESCAPES };
	int rc = decoder->with_lengths ? unpack_column(decoder, COLUMN_LENGTHS) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns) && rc == 0; i++)
		rc = unpack_column(decoder, columns[i]);
	for (uint32_t i = 0; i < decoder->position_count && rc == 0; i++)
		decoder->ends[i] = i + 1;
	return rc;
}

static int place_all_rows(struct chunk_decoder *decoder, const struct row_query *query)
{
	if (query->without_nodes && decoder->position_count == decoder->row_count)
		return place_single_rows(decoder);
	decoder->all_wanted = true;
	int rc = place_rows(decoder, false);
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

int chunk_decode(struct chunk_decoder *decoder, struct bytes chunk, const struct row_query *query)
{
	bool wanted = false;
	int rc = open_chunk(decoder, chunk, query, &wanted);

	if (rc < 0 || !wanted)
		return rc;
	rc = reserve_rows(decoder);
	if (rc < 0)
		return rc;
	return query->detail == SCAN_SUMS ? decode_sums(decoder, query)
					  : decode_rows(decoder, query);
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
