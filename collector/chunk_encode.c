// SPDX-License-Identifier: Apache-2.0
#include "collector/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/cleanup.h"
#include "collector/chunk_format.h"

enum {
	// Level 3 packs the same within 1 %, level 9 takes three times as long for 0.5 %.
	CHUNK_ZSTD_LEVEL = 6,
	PACKED_BYTES_MIN = 24, // a frame has 10 bytes of its own: less is not worth one
	VALUE_SLOTS = 8192,    // of the table that counts values; a power of two
	VALUES_COUNTED_MAX = 4096,
	PALETTE_COUNT_MIN = 3, // a palette entry costs about as much as two escapes
};

/** A value and how often it occurs. */
struct counted_value {
	int64_t value;
	uint32_t count; // 0: the slot is empty
	uint32_t code;
};

struct chunk_encoder {
	ZSTD_CCtx *zstd;
	struct buffer columns[COLUMN_COUNT];
	struct buffer packed;
	struct counted_value *values; // VALUE_SLOTS, open addressing
	uint32_t value_count;
	uint32_t *slot_starts; // by slot of the window: rows, then where the slot's rows begin
	int64_t palette[PALETTE_MAX];
	uint32_t palette_count;
	int64_t *ordered; // a series' values in time order
	uint32_t ordered_capacity;
	uint64_t bits;      // not yet written
	uint32_t bit_count; // of them
	int64_t scale;
};

struct chunk_encoder *chunk_encoder_new(void)
{
	_cleanup_(chunk_encoder_freep) struct chunk_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return NULL;
	encoder->zstd = ZSTD_createCCtx();
	encoder->values = calloc(VALUE_SLOTS, sizeof(*encoder->values));
	encoder->slot_starts = calloc(WINDOW_SLOTS_MAX + 1, sizeof(*encoder->slot_starts));
	if (!encoder->zstd || !encoder->values || !encoder->slot_starts)
		return NULL;
	return take(encoder);
}

void chunk_encoder_freep(struct chunk_encoder **at)
{
	struct chunk_encoder *encoder = *at;

	if (!encoder)
		return;
	ZSTD_freeCCtx(encoder->zstd);
	for (int i = 0; i < COLUMN_COUNT; i++)
		buffer_deinit(&encoder->columns[i]);
	buffer_deinit(&encoder->packed);
	free(encoder->values);
	free(encoder->slot_starts);
	free(encoder->ordered);
	free(encoder);
}

// ---- values -------------------------------------------------------------------------------------

/** The slot of @value, or the empty one where it belongs. */
static struct counted_value *find_value(const struct chunk_encoder *encoder, int64_t value)
{
	uint64_t hash = (uint64_t)value * 0x9e3779b97f4a7c15ULL >> 40;

	for (;; hash++) {
		struct counted_value *slot = &encoder->values[hash & (VALUE_SLOTS - 1)];

		if (!slot->count || slot->value == value)
			return slot;
	}
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

static void count_values(struct chunk_encoder *encoder, const struct row *rows, uint32_t count)
{
	uint64_t scale = 0;

	memset(encoder->values, 0, VALUE_SLOTS * sizeof(*encoder->values));
	encoder->value_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		int64_t value = rows[i].value;
		struct counted_value *slot = find_value(encoder, value);

		if (slot->count) {
			slot->count++;
			continue;
		}
		if (scale != 1)
			scale = greatest_common_divisor(
				value < 0 ? 0 - (uint64_t)value : (uint64_t)value, scale);
		if (encoder->value_count == VALUES_COUNTED_MAX)
			continue;
		*slot = (struct counted_value){ .value = value, .count = 1, .code = VALUE_ESCAPE };
		encoder->value_count++;
	}
	encoder->scale = scale && scale <= INT64_MAX ? (int64_t)scale : 1;
}

static int by_count(const void *a, const void *b)
{
	const struct counted_value *const *left = a, *const *right = b;

	return ((*left)->count < (*right)->count) - ((*left)->count > (*right)->count);
}

static int by_value(const void *a, const void *b)
{
	const struct counted_value *const *left = a, *const *right = b;

	return ((*left)->value > (*right)->value) - ((*left)->value < (*right)->value);
}

static void choose_palette(struct chunk_encoder *encoder)
{
	struct counted_value *frequent[VALUES_COUNTED_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < VALUE_SLOTS; i++)
		if (encoder->values[i].count >= PALETTE_COUNT_MIN)
			frequent[count++] = &encoder->values[i];
	qsort(frequent, count, sizeof(*frequent), by_count);
	if (count > PALETTE_MAX)
		count = PALETTE_MAX;
	qsort(frequent, count, sizeof(*frequent), by_value);
	for (uint32_t i = 0; i < count; i++) {
		encoder->palette[i] = frequent[i]->value / encoder->scale;
		frequent[i]->code = i;
	}
	encoder->palette_count = count;
}

static void encode_value(struct chunk_encoder *encoder, int64_t value)
{
	const struct counted_value *slot = find_value(encoder, value);
	uint32_t code = slot->count ? slot->code : VALUE_ESCAPE;

	buffer_append_byte(&encoder->columns[COLUMN_VALUES], (uint8_t)code);
	if (code == VALUE_ESCAPE)
		buffer_append_svarint(&encoder->columns[COLUMN_ESCAPES], value / encoder->scale);
}

// ---- one series -----------------------------------------------------------------------------------

/** Add up equal (node, slot) of one series' sorted rows. */
static uint32_t join_rows(struct row *rows, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < count; i++) {
		if (rows[i].node == rows[kept].node && rows[i].slot == rows[kept].slot)
			rows[kept].value =
				(int64_t)((uint64_t)rows[kept].value + (uint64_t)rows[i].value);
		else
			rows[++kept] = rows[i];
	}
	return kept + 1;
}

/** Number the slots that have rows: slot_starts becomes the slot's rank; returns how many. */
static uint32_t encode_slots(struct chunk_encoder *encoder, const struct row *rows, uint32_t count,
			     uint32_t *ret_first, uint32_t *ret_last)
{
	uint32_t *starts = encoder->slot_starts, first = UINT32_MAX, last = 0, ranks = 0,
		 before = 0;

	for (uint32_t i = 0; i < count; i++) {
		starts[rows[i].slot] = 1;
		first = rows[i].slot < first ? rows[i].slot : first;
		last = rows[i].slot > last ? rows[i].slot : last;
	}
	for (uint32_t slot = first; slot <= last; slot++) {
		if (!starts[slot])
			continue;
		buffer_append_varint(&encoder->columns[COLUMN_SLOTS], slot - before);
		before = slot;
		starts[slot] = ranks++;
	}
	*ret_first = first;
	*ret_last = last;
	return ranks;
}

static void encode_bits(struct chunk_encoder *encoder, uint64_t bits, uint32_t count)
{
	encoder->bits |= bits << encoder->bit_count;
	encoder->bit_count += count;
	for (; encoder->bit_count >= 8; encoder->bit_count -= 8, encoder->bits >>= 8)
		buffer_append_byte(&encoder->columns[COLUMN_BITS], (uint8_t)encoder->bits);
}

/** One node's rows: their distances in ranks. */
static void encode_distances(struct chunk_encoder *encoder, const struct row *rows, uint32_t count,
			     uint32_t ranks)
{
	struct buffer *class = &encoder->columns[COLUMN_CLASSES + chunk_class(ranks, count)];
	uint32_t next = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = encoder->slot_starts[rows[i].slot], distance = rank - next;
		uint32_t bits = distance ? 32 - (uint32_t)__builtin_clz(distance) : 0;

		buffer_append_byte(class, (uint8_t)bits);
		if (bits > 1)
			encode_bits(encoder, distance & ((1U << (bits - 1)) - 1), bits - 1);
		next = rank + 1;
	}
}

static uint32_t encode_nodes(struct chunk_encoder *encoder, const struct row *rows, uint32_t count,
			     uint32_t ranks)
{
	uint32_t nodes = 0, before = 0;

	for (uint32_t i = 0, end; i < count; i = end, nodes++) {
		for (end = i; end < count && rows[end].node == rows[i].node;)
			end++;
		buffer_append_varint(&encoder->columns[COLUMN_NODES], rows[i].node - before);
		buffer_append_varint(&encoder->columns[COLUMN_COUNTS], end - i - 1);
		encode_distances(encoder, rows + i, end - i, ranks);
		before = rows[i].node;
	}
	return nodes;
}

/** The values by (slot, node): rows come by (node, slot), so counting by slot is stable in node. */
static int encode_values(struct chunk_encoder *encoder, const struct row *rows, uint32_t count,
			 uint32_t first, uint32_t last)
{
	uint32_t *starts = encoder->slot_starts, at = 0;

	if (count > encoder->ordered_capacity) {
		free(encoder->ordered);
		encoder->ordered_capacity = 0;
		encoder->ordered = malloc((size_t)count * sizeof(*encoder->ordered));
		if (!encoder->ordered)
			return -ENOMEM;
		encoder->ordered_capacity = count;
	}
	memset(starts + first, 0, (last - first + 1) * sizeof(*starts));
	for (uint32_t i = 0; i < count; i++)
		starts[rows[i].slot]++;
	for (uint32_t slot = first; slot <= last; slot++) {
		uint32_t rows_of_slot = starts[slot];

		starts[slot] = at;
		at += rows_of_slot;
	}
	for (uint32_t i = 0; i < count; i++)
		encoder->ordered[starts[rows[i].slot]++] = rows[i].value;
	for (uint32_t i = 0; i < count; i++)
		encode_value(encoder, encoder->ordered[i]);
	memset(starts + first, 0, (last - first + 1) * sizeof(*starts));
	return 0;
}

/** @rows are one series', joined, by (node, slot). */
static int encode_series(struct chunk_encoder *encoder, const struct row *rows, uint32_t count,
			 uint32_t series_before)
{
	struct buffer *directory = &encoder->columns[COLUMN_DIRECTORY];
	uint32_t first, last;
	uint32_t ranks = encode_slots(encoder, rows, count, &first, &last);
	uint32_t nodes = encode_nodes(encoder, rows, count, ranks);

	buffer_append_varint(directory, rows[0].series - series_before);
	buffer_append_varint(directory, nodes);
	buffer_append_varint(directory, ranks);
	buffer_append_varint(directory, count);
	return encode_values(encoder, rows, count, first, last);
}

// ---- the chunk --------------------------------------------------------------------------------------

/** Sort and join each series' rows, moving them together. Returns how many are left in @count. */
static int join_series(struct row *rows, uint32_t *count)
{
	uint32_t kept = 0;

	for (uint32_t i = 0, end; i < *count; i = end) {
		for (end = i; end < *count && rows[end].series == rows[i].series;)
			end++;
		int rc = rows_sort_by_node(rows + i, end - i);
		if (rc < 0)
			return rc;
		uint32_t joined = join_rows(rows + i, end - i);
		if (kept != i)
			memmove(rows + kept, rows + i, joined * sizeof(*rows));
		kept += joined;
	}
	*count = kept;
	return 0;
}

static int pack_column(struct chunk_encoder *encoder, const struct buffer *column,
		       struct buffer *chunk)
{
	struct buffer *packed = &encoder->packed;

	buffer_append_varint(chunk, column->size);
	if (column->size < PACKED_BYTES_MIN) {
		buffer_append_varint(chunk, 0);
		buffer_append(packed, column->bytes, column->size);
		return 0;
	}

	size_t start = packed->size, bound = ZSTD_compressBound(column->size);
	void *room = buffer_extend(packed, bound);
	if (!room)
		return -ENOMEM;
	size_t size = ZSTD_compressCCtx(encoder->zstd, room, bound, column->bytes, column->size,
					CHUNK_ZSTD_LEVEL);
	packed->size = start;
	if (ZSTD_isError(size) || size >= column->size) {
		buffer_append_varint(chunk, 0);
		buffer_append(packed, column->bytes, column->size);
	} else {
		buffer_append_varint(chunk, size);
		packed->size = start + size;
	}
	return packed->rc;
}

static int write_chunk(struct chunk_encoder *encoder, uint64_t slot_ns, uint32_t series_count,
		       uint32_t row_count, struct buffer *chunk)
{
	int64_t before = 0;

	buffer_append_varint(chunk, CHUNK_VERSION);
	buffer_append_varint(chunk, slot_ns);
	buffer_append_varint(chunk, (uint64_t)encoder->scale);
	buffer_append_varint(chunk, series_count);
	buffer_append_varint(chunk, row_count);
	buffer_append_varint(chunk, encoder->palette_count);
	for (uint32_t i = 0; i < encoder->palette_count; i++) {
		buffer_append_svarint(chunk,
				      (int64_t)((uint64_t)encoder->palette[i] - (uint64_t)before));
		before = encoder->palette[i];
	}
	buffer_clear(&encoder->packed);
	for (int i = 0; i < COLUMN_COUNT; i++) {
		int rc = encoder->columns[i].rc;

		if (rc == 0)
			rc = pack_column(encoder, &encoder->columns[i], chunk);
		if (rc < 0)
			return rc;
	}
	buffer_append(chunk, encoder->packed.bytes, encoder->packed.size);
	return chunk->rc;
}

int chunk_encode(struct chunk_encoder *encoder, struct row *rows, uint32_t count, uint64_t slot_ns,
		 struct buffer *chunk, uint32_t *ret_count)
{
	uint32_t series_count = 0, before = 0;
	int rc = join_series(rows, &count);

	if (rc < 0)
		return rc;
	for (int i = 0; i < COLUMN_COUNT; i++)
		buffer_clear(&encoder->columns[i]);
	count_values(encoder, rows, count);
	choose_palette(encoder);
	for (uint32_t i = 0, end; i < count && rc == 0; i = end, series_count++) {
		for (end = i; end < count && rows[end].series == rows[i].series;)
			end++;
		rc = encode_series(encoder, rows + i, end - i, before);
		before = rows[i].series;
	}
	if (encoder->bit_count)
		encode_bits(encoder, 0, 8 - encoder->bit_count);
	if (rc == 0)
		rc = write_chunk(encoder, slot_ns, series_count, count, chunk);
	*ret_count = count;
	return rc;
}
