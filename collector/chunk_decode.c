// SPDX-License-Identifier: Apache-2.0
// Chunks come from our own files, which have checksums; still every number is checked, so that a
// damaged chunk ends in -EBADMSG and not in other memory.
#include "collector/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/cleanup.h"
#include "collector/chunk_format.h"

enum {
	// A chunk of sums has a row per node of a partition: more than CHUNK_ROWS_MAX.
	ROWS_MAX = 16 << 20,
	COLUMN_BYTES_MAX = 256 << 20,
	COLUMN_PADDING = 8, // bits are read eight bytes at a time
};

struct column {
	struct bytes packed;
	size_t size; // unpacked
	bool is_packed;
	uint8_t *unpacked;
	size_t capacity;
};

/** A series of the directory. */
struct directory_entry {
	uint32_t series, nodes, slots, rows;
};

struct chunk_decoder {
	ZSTD_DCtx *zstd;
	struct column columns[COLUMN_COUNT];
	struct reader readers[COLUMN_COUNT];
	struct row_columns rows;
	int64_t palette[PALETTE_MAX + 1];
	uint32_t palette_count;
	uint64_t slot_ns, scale;
	uint32_t series_count, row_count;
	uint64_t bit_position; // in COLUMN_BITS
	uint32_t *ranks;       // per row of the series, by (node, slot)
	uint32_t *nodes;       // per node of the series
	uint32_t *counts;      // rows of each node
	int64_t *ordered;      // values by (slot, node)
	uint32_t capacity;     // of these four
	uint64_t *slots;       // per rank
	uint32_t *starts;      // per rank: where its rows begin
};

struct chunk_decoder *chunk_decoder_new(void)
{
	_cleanup_(chunk_decoder_freep) struct chunk_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return NULL;
	decoder->zstd = ZSTD_createDCtx();
	decoder->slots = malloc(WINDOW_SLOTS_MAX * sizeof(*decoder->slots));
	decoder->starts = malloc((WINDOW_SLOTS_MAX + 1) * sizeof(*decoder->starts));
	if (!decoder->zstd || !decoder->slots || !decoder->starts)
		return NULL;
	return take(decoder);
}

static void free_series(struct chunk_decoder *decoder)
{
	free(decoder->ranks);
	free(decoder->nodes);
	free(decoder->counts);
	free(decoder->ordered);
	decoder->ranks = decoder->nodes = decoder->counts = NULL;
	decoder->ordered = NULL;
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
	free_series(decoder);
	free(decoder->slots);
	free(decoder->starts);
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

static int read_head(struct chunk_decoder *decoder, struct reader *reader)
{
	uint64_t version = reader_varint(reader);

	decoder->slot_ns = reader_varint(reader);
	decoder->scale = reader_varint(reader);
	uint64_t series_count = reader_varint(reader), row_count = reader_varint(reader);
	if (reader->failed || version != CHUNK_VERSION || decoder->slot_ns < SLOT_NS_MIN ||
	    row_count > ROWS_MAX || series_count > row_count)
		return -EBADMSG;
	decoder->series_count = (uint32_t)series_count;
	decoder->row_count = (uint32_t)row_count;
	return read_palette(decoder, reader);
}

static int read_columns(struct chunk_decoder *decoder, struct reader *reader)
{
	for (int i = 0; i < COLUMN_COUNT; i++) {
		struct column *column = &decoder->columns[i];
		uint64_t size = reader_varint(reader), packed = reader_varint(reader);

		if (reader->failed || size > COLUMN_BYTES_MAX)
			return -EBADMSG;
		column->size = size;
		column->is_packed = packed > 0;
		column->packed.size = packed ? packed : size;
	}
	for (int i = 0; i < COLUMN_COUNT; i++) {
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

// ---- one series -----------------------------------------------------------------------------------

static int reserve_series(struct chunk_decoder *decoder, uint32_t rows)
{
	if (rows <= decoder->capacity)
		return row_columns_reserve(&decoder->rows, rows);
	free_series(decoder);
	uint32_t capacity = rows + rows / 4 + 256;
	decoder->ranks = malloc(capacity * sizeof(*decoder->ranks));
	decoder->nodes = malloc(capacity * sizeof(*decoder->nodes));
	decoder->counts = malloc(capacity * sizeof(*decoder->counts));
	decoder->ordered = malloc(capacity * sizeof(*decoder->ordered));
	if (!decoder->ranks || !decoder->nodes || !decoder->counts || !decoder->ordered) {
		free_series(decoder);
		return -ENOMEM;
	}
	decoder->capacity = capacity;
	return row_columns_reserve(&decoder->rows, rows);
}

static int read_entry(struct chunk_decoder *decoder, uint64_t *series,
		      struct directory_entry *ret_entry)
{
	struct reader *reader = &decoder->readers[COLUMN_DIRECTORY];

	*series += reader_varint(reader);
	uint64_t nodes = reader_varint(reader), slots = reader_varint(reader);
	uint64_t rows = reader_varint(reader);
	if (reader->failed || *series > UINT32_MAX || rows == 0 || rows > decoder->row_count ||
	    nodes == 0 || nodes > rows || slots == 0 || slots > rows || slots > WINDOW_SLOTS_MAX)
		return -EBADMSG;
	*ret_entry = (struct directory_entry){ (uint32_t)*series, (uint32_t)nodes, (uint32_t)slots,
					       (uint32_t)rows };
	return 0;
}

static int read_nodes(struct chunk_decoder *decoder, const struct directory_entry *entry)
{
	struct reader *nodes = &decoder->readers[COLUMN_NODES];
	struct reader *counts = &decoder->readers[COLUMN_COUNTS];
	uint64_t node = 0, rows = 0;

	for (uint32_t i = 0; i < entry->nodes; i++) {
		node += reader_varint(nodes);
		uint64_t count = reader_varint(counts) + 1;
		if (node > UINT32_MAX || count > entry->slots)
			return -EBADMSG;
		decoder->nodes[i] = (uint32_t)node;
		decoder->counts[i] = (uint32_t)count;
		rows += count;
	}
	return nodes->failed || counts->failed || rows != entry->rows ? -EBADMSG : 0;
}

static int read_slots(struct chunk_decoder *decoder, const struct directory_entry *entry,
		      uint64_t first_slot)
{
	struct reader *reader = &decoder->readers[COLUMN_SLOTS];
	uint64_t slot = 0;

	for (uint32_t i = 0; i < entry->slots; i++) {
		slot += reader_varint(reader);
		if (slot >= WINDOW_SLOTS_MAX)
			return -EBADMSG;
		decoder->slots[i] = first_slot + slot;
	}
	return reader->failed ? -EBADMSG : 0;
}

/** The distance of one row, @bits of them; the caller has checked that they are there. */
static inline uint32_t read_distance(const uint8_t *bytes, uint64_t *position, uint32_t bits)
{
	if (bits <= 1)
		return bits;
	uint64_t word;
	memcpy(&word, bytes + *position / 8, sizeof(word));
	word = word >> (*position % 8) & ((1U << (bits - 1)) - 1);
	*position += bits - 1;
	return 1U << (bits - 1) | (uint32_t)word;
}

/** Ranks of the rows of one node, which @class tells the widths of. */
static int read_ranks(struct chunk_decoder *decoder, uint32_t count, uint32_t slots,
		      uint32_t *ret_ranks)
{
	struct reader *class = &decoder->readers[COLUMN_CLASSES + chunk_class(slots, count)];
	const struct column *bits = &decoder->columns[COLUMN_BITS];
	const uint8_t *widths = reader_bytes(class, count);
	uint64_t rank = 0, bits_end = bits->size * 8;

	if (!widths)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		if (widths[i] > CHUNK_CLASSES || decoder->bit_position > bits_end)
			return -EBADMSG;
		rank += read_distance(bits->unpacked, &decoder->bit_position, widths[i]);
		if (rank >= slots)
			return -EBADMSG;
		ret_ranks[i] = (uint32_t)rank++;
	}
	return 0;
}

static int read_values(struct chunk_decoder *decoder, uint32_t count)
{
	const uint8_t *codes = reader_bytes(&decoder->readers[COLUMN_VALUES], count);
	struct reader *escapes = &decoder->readers[COLUMN_ESCAPES];

	if (!codes)
		return -EBADMSG;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t code = codes[i];

		if (code == VALUE_ESCAPE)
			decoder->ordered[i] =
				(int64_t)((uint64_t)reader_svarint(escapes) * decoder->scale);
		else if (code < decoder->palette_count)
			decoder->ordered[i] = decoder->palette[code];
		else
			return -EBADMSG;
	}
	return escapes->failed ? -EBADMSG : 0;
}

/** Ranks of all rows, and starts: where each rank's values begin in time order. */
static int read_all_ranks(struct chunk_decoder *decoder, const struct directory_entry *entry)
{
	uint32_t *starts = decoder->starts, at = 0;

	for (uint32_t i = 0; i < entry->nodes; i++) {
		int rc = read_ranks(decoder, decoder->counts[i], entry->slots, decoder->ranks + at);
		if (rc < 0)
			return rc;
		at += decoder->counts[i];
	}
	memset(starts, 0, (entry->slots + 1) * sizeof(*starts));
	for (uint32_t i = 0; i < entry->rows; i++)
		starts[decoder->ranks[i] + 1]++;
	for (uint32_t i = 0; i < entry->slots; i++)
		starts[i + 1] += starts[i];
	return 0;
}

/** Rows by (node, slot), those in the query's range. Returns how many. */
static uint32_t gather_rows(struct chunk_decoder *decoder, const struct directory_entry *entry,
			    const struct row_query *query)
{
	struct row_columns *rows = &decoder->rows;
	uint32_t kept = 0, at = 0;

	for (uint32_t i = 0; i < entry->nodes; i++) {
		for (uint32_t end = at + decoder->counts[i]; at < end; at++) {
			uint32_t rank = decoder->ranks[at];
			uint64_t slot = decoder->slots[rank];

			rows->slots[kept] = slot;
			rows->nodes[kept] = decoder->nodes[i];
			rows->values[kept] = decoder->ordered[decoder->starts[rank]++];
			kept += slot >= query->from_slot && slot < query->to_slot;
		}
	}
	return kept;
}

/** One row per node, its values in the range added up. */
static uint32_t gather_sums(struct chunk_decoder *decoder, const struct directory_entry *entry,
			    const struct row_query *query)
{
	struct row_columns *rows = &decoder->rows;
	uint32_t kept = 0, at = 0;

	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint64_t sum = 0;
		bool any = false;

		for (uint32_t end = at + decoder->counts[i]; at < end; at++) {
			uint32_t rank = decoder->ranks[at];
			uint64_t slot = decoder->slots[rank];
			uint64_t value = (uint64_t)decoder->ordered[decoder->starts[rank]++];
			bool in_range = slot >= query->from_slot && slot < query->to_slot;

			sum += in_range ? value : 0;
			any |= in_range;
		}
		rows->nodes[kept] = decoder->nodes[i];
		rows->values[kept] = (int64_t)sum;
		kept += any;
	}
	return kept;
}

static int read_series(struct chunk_decoder *decoder, const struct directory_entry *entry,
		       uint32_t number, const struct row_query *query)
{
	int rc = read_slots(decoder, entry, query->first_slot);

	if (rc == 0)
		rc = read_all_ranks(decoder, entry);
	if (rc == 0)
		rc = read_values(decoder, entry->rows);
	if (rc < 0)
		return rc;

	bool with_slots = query->detail == SCAN_ROWS;
	struct store_rows found = {
		.series = number,
		.slot_ns = decoder->slot_ns,
		.slots = with_slots ? decoder->rows.slots : NULL,
		.nodes = decoder->rows.nodes,
		.values = decoder->rows.values,
	};
	found.count = with_slots ? gather_rows(decoder, entry, query)
				 : gather_sums(decoder, entry, query);
	return found.count ? query->rows(query->context, &found) : 0;
}

/** Move all readers past a series. */
static int skip_series(struct chunk_decoder *decoder, const struct directory_entry *entry)
{
	struct reader *slots = &decoder->readers[COLUMN_SLOTS];
	struct reader *escapes = &decoder->readers[COLUMN_ESCAPES];
	const uint8_t *codes = reader_bytes(&decoder->readers[COLUMN_VALUES], entry->rows);

	if (!codes)
		return -EBADMSG;
	for (uint32_t i = 0; i < entry->slots; i++)
		reader_varint(slots);
	for (uint32_t i = 0; i < entry->rows; i++)
		if (codes[i] == VALUE_ESCAPE)
			reader_varint(escapes);
	for (uint32_t i = 0; i < entry->nodes; i++) {
		uint32_t count = decoder->counts[i];
		uint32_t class = chunk_class(entry->slots, count);
		const uint8_t *widths =
			reader_bytes(&decoder->readers[COLUMN_CLASSES + class], count);

		if (!widths)
			return -EBADMSG;
		for (uint32_t j = 0; j < count; j++)
			decoder->bit_position += widths[j] > 1 ? widths[j] - 1U : 0;
	}
	return slots->failed || escapes->failed ? -EBADMSG : 0;
}

static int decode_series(struct chunk_decoder *decoder, const struct directory_entry *entry,
			 const struct row_query *query)
{
	uint32_t number = row_query_number(query, entry->series);
	int rc = reserve_series(decoder, entry->rows);

	if (rc == 0)
		rc = read_nodes(decoder, entry);
	if (rc < 0)
		return rc;
	return number == SERIES_UNWANTED ? skip_series(decoder, entry)
					 : read_series(decoder, entry, number, query);
}

// ---- the chunk --------------------------------------------------------------------------------------

/** How many series from the first up to the last that is wanted: 0 if none is. */
static int count_wanted(struct chunk_decoder *decoder, const struct row_query *query,
			uint32_t *ret_count)
{
	struct directory_entry entry;
	uint64_t series = 0, rows = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < decoder->series_count; i++) {
		int rc = read_entry(decoder, &series, &entry);
		if (rc < 0)
			return rc;
		rows += entry.rows;
		if (row_query_number(query, entry.series) != SERIES_UNWANTED)
			count = i + 1;
	}
	*ret_count = count;
	return rows == decoder->row_count ? 0 : -EBADMSG;
}

static int unpack_rows(struct chunk_decoder *decoder)
{
	int rc = 0;

	for (int i = 0; i < COLUMN_COUNT && rc == 0; i++)
		rc = unpack_column(decoder, (enum chunk_column)i);
	decoder->bit_position = 0;
	return rc;
}

int chunk_decode(struct chunk_decoder *decoder, struct bytes chunk, const struct row_query *query)
{
	struct reader reader = { .at = chunk.at, .end = (const uint8_t *)chunk.at + chunk.size };
	struct directory_entry entry;
	uint64_t series = 0;
	uint32_t count = 0;
	int rc = read_head(decoder, &reader);

	if (rc == 0)
		rc = read_columns(decoder, &reader);
	if (rc == 0)
		rc = unpack_column(decoder, COLUMN_DIRECTORY);
	if (rc == 0)
		rc = count_wanted(decoder, query, &count);
	if (rc < 0 || count == 0)
		return rc;
	rc = unpack_rows(decoder);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = read_entry(decoder, &series, &entry);
		if (rc == 0)
			rc = decode_series(decoder, &entry, query);
	}
	return rc;
}
