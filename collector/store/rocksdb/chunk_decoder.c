// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/chunk_decoder.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum {
	COLUMN_PADDING = 8, // bits are read eight bytes at a time
};

int chunk_decoder_init(struct chunk_decoder *decoder)
{
	decoder->zstd = ZSTD_createDCtx();
	for (uint32_t i = 1; i <= CHUNK_CLASSES; i++)
		decoder->widths[i] =
			(struct chunk_width){ 1U << (i - 1), (1U << (i - 1)) - 1, i - 1 };
	return decoder->zstd ? 0 : -ENOMEM;
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

void chunk_decoder_deinit(struct chunk_decoder *decoder)
{
	ZSTD_freeDCtx(decoder->zstd);
	for (int i = 0; i < COLUMN_COUNT; i++)
		free(decoder->columns[i].unpacked);
	row_columns_deinit(&decoder->rows);
	free(decoder->sections);
	free_rows(decoder);
	free(decoder->kept);
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
		struct chunk_unpacked *column = &decoder->columns[i];
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
		struct chunk_unpacked *column = &decoder->columns[i];

		column->packed.at = reader_bytes(reader, column->packed.size);
		if (!column->packed.at)
			return -EBADMSG;
	}
	return reader_left(reader) ? -EBADMSG : 0;
}

static int reserve_column(struct chunk_unpacked *column)
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

int chunk_decoder_unpack(struct chunk_decoder *decoder, enum chunk_column number)
{
	struct chunk_unpacked *column = &decoder->columns[number];
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

/** Is the column unpacked later on? The directory is already. */
static bool is_read(const struct chunk_decoder *decoder, int number)
{
	if (decoder->reads_sums)
		return number == COLUMN_NODES || number == COLUMN_COUNTS || number == COLUMN_SUMS;
	return number != COLUMN_DIRECTORY && number != COLUMN_SUMS;
}

/** Room for @size bytes of packed columns. */
static int reserve_kept(struct chunk_decoder *decoder, size_t size)
{
	if (size <= decoder->kept_capacity)
		return 0;
	free(decoder->kept);
	decoder->kept_capacity = 0;
	decoder->kept = malloc(size);
	if (!decoder->kept)
		return -ENOMEM;
	decoder->kept_capacity = size;
	return 0;
}

int chunk_decoder_keep(struct chunk_decoder *decoder)
{
	size_t size = 0;
	int rc = 0;

	for (int i = 0; i < decoder->column_count && rc == 0; i++) {
		if (!is_read(decoder, i))
			continue;
		rc = reserve_column(&decoder->columns[i]);
		size += decoder->columns[i].packed.size;
	}
	if (rc == 0)
		rc = reserve_kept(decoder, size);
	uint8_t *at = decoder->kept;
	for (int i = 0; i < decoder->column_count && rc == 0; i++) {
		struct bytes *packed = &decoder->columns[i].packed;

		if (!is_read(decoder, i) || !packed->size)
			continue;
		memcpy(at, packed->at, packed->size);
		packed->at = at;
		at += packed->size;
	}
	return rc;
}

// ---- positions --------------------------------------------------------------------------------------

int chunk_decoder_reserve(struct chunk_decoder *decoder)
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
		series += chunk_read_number(reader);
		uint64_t count = chunk_read_number(reader);
		if (reader->failed || series > UINT32_MAX || count > decoder->row_count ||
		    positions + count > decoder->row_count)
			return -EBADMSG;
		decoder->sections[i] =
			(struct chunk_section){ (uint32_t)series, (uint32_t)positions,
						(uint32_t)count };
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
		const struct chunk_unpacked *column = &decoder->columns[COLUMN_CLASSES + i];

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
		const struct chunk_width *width = &decoder->widths[widths[i]];
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
		node += chunk_read_number(nodes);
		uint64_t count = chunk_read_number(counts) + 1;
		if (nodes->failed || counts->failed || node > UINT32_MAX || count == 0 ||
		    count > decoder->position_count || count > decoder->row_count - row)
			return -EBADMSG;
		int kept = read_positions(decoder, (uint32_t)count, &bit, wanted, positions);
		if (kept < 0)
			return kept;
		decoder->runs[decoder->run_count] =
			(struct chunk_node_run){ (uint32_t)node, (uint32_t)kept };
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

int chunk_decoder_open(struct chunk_decoder *decoder, struct bytes chunk,
		       const struct row_query *query, bool *ret_wanted)
{
	struct reader reader = { .at = chunk.at, .end = (const uint8_t *)chunk.at + chunk.size };
	int rc = read_head(decoder, &reader);

	if (rc == 0)
		rc = read_columns(decoder, &reader);
	if (rc == 0)
		rc = chunk_decoder_unpack(decoder, COLUMN_DIRECTORY);
	return rc ? rc : read_directory(decoder, query, ret_wanted);
}

int chunk_decoder_place(struct chunk_decoder *decoder, bool slots_are_read)
{
	int rc = 0;

	for (int i = COLUMN_SLOTS; i < decoder->column_count && rc == 0; i++)
		if (i != COLUMN_SUMS &&
		    (!slots_are_read || (i != COLUMN_SLOTS && i != COLUMN_LENGTHS)))
			rc = chunk_decoder_unpack(decoder, (enum chunk_column)i);
	if (rc == 0)
		rc = read_nodes(decoder);
	if (rc == 0)
		place_positions(decoder);
	return rc;
}

int chunk_decoder_read_values(struct chunk_decoder *decoder, uint32_t first, uint32_t count)
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
			values[i] =
				(int64_t)((uint64_t)chunk_read_signed(escapes) * decoder->scale);
		else
			return -EBADMSG;
	}
	return escapes->failed ? -EBADMSG : 0;
}
