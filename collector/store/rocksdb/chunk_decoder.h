// SPDX-License-Identifier: Apache-2.0
// What a chunk's columns say, unpacked: who reads rows or sums begins with this. Every number is checked; a damaged chunk is -EBADMSG.
#pragma once

#include <errno.h>

#include <zstd.h>

#include "base/buffer.h"
#include "collector/store/rocksdb/chunk_format.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rows.h"

struct chunk_unpacked {
	struct bytes packed;
	size_t size; // unpacked
	bool is_packed;
	uint8_t *unpacked;
	size_t capacity;
};

/** A series: positions [first, first + count). */
struct chunk_section {
	uint32_t series, first, count;
};

/** A node and how many rows it has. */
struct chunk_node_run {
	uint32_t node, count;
};

/** What a width adds to a distance: the highest bit, and the mask of those below, which are stored. */
struct chunk_width {
	uint32_t highest, mask, bits;
};

struct chunk_decoder {
	ZSTD_DCtx *zstd;
	struct chunk_width widths[CHUNK_CLASSES + 1];
	struct chunk_unpacked columns[COLUMN_COUNT];
	struct reader readers[COLUMN_COUNT];
	int64_t palette[PALETTE_MAX + 1]; // by any code
	uint32_t palette_count;
	uint64_t slot_ns, scale;
	uint64_t slots_max; // of the chunk's minutes
	uint64_t present;   // a bit for each column that is not empty
	bool with_lengths, with_sums;
	bool reads_sums; // the sums of all rows are wanted, and there
	int column_count;
	uint32_t minutes;   // that the rows lie in
	uint64_t last_slot; // that an interval of the section being read covers
	uint32_t series_count, row_count, position_count;
	struct chunk_section *sections;
	uint32_t section_capacity;
	struct row_columns rows; // by (position, node)
	struct chunk_node_run *runs;
	uint32_t run_count;
	uint32_t *positions; // per row, by (node, position); for sums, of wanted rows
	uint32_t *ends;      // per position + 1: its rows, then their start, then their end
	bool *wanted;        // per position, for sums
	bool all_wanted;     // for sums
	bool cuts;           // for sums, intervals that the range cuts are wanted
	int64_t *sums;       // per node with wanted rows
	uint32_t capacity;   // of these, in rows
	uint8_t *kept;       // a copy of the packed columns, if chunk_decoder_keep() made one
	size_t kept_capacity;
};

/** Returns 0 or -ENOMEM. */
int chunk_decoder_init(struct chunk_decoder *decoder);
void chunk_decoder_deinit(struct chunk_decoder *decoder);

/** Read the head and the directory of @chunk, which stays until it is decoded. *ret_wanted: @query wants any of its series. */
int chunk_decoder_open(struct chunk_decoder *decoder, struct bytes chunk,
		       const struct row_query *query, bool *ret_wanted);
/** Room for the chunk's rows. */
int chunk_decoder_reserve(struct chunk_decoder *decoder);
/** Copy the columns that are read, and make room for them unpacked: the chunk's bytes may go. */
int chunk_decoder_keep(struct chunk_decoder *decoder);
int chunk_decoder_unpack(struct chunk_decoder *decoder, enum chunk_column number);
/** Unpack the columns that are not yet, those of slots unless @slots_are_read, and find each row's place. */
int chunk_decoder_place(struct chunk_decoder *decoder, bool slots_are_read);
/** Read the next @count values into the rows from @first on. */
int chunk_decoder_read_values(struct chunk_decoder *decoder, uint32_t first, uint32_t count);

/** reader_varint(), without a call for numbers of one byte, which most are, two or three. */
static inline uint64_t chunk_read_number(struct reader *reader)
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

/** reader_svarint(), as chunk_read_number(). */
static inline int64_t chunk_read_signed(struct reader *reader)
{
	uint64_t number = chunk_read_number(reader);

	return (int64_t)(number >> 1 ^ (0 - (number & 1)));
}

/** Read the next position's more_slots; its slots must lie in the chunk's minutes. */
static inline int chunk_read_length(struct chunk_decoder *decoder, uint64_t slot,
				    uint32_t *ret_more)
{
	uint64_t more_slots = chunk_read_number(&decoder->readers[COLUMN_LENGTHS]);

	if (slot >= decoder->slots_max || more_slots >= decoder->slots_max - slot)
		return -EBADMSG;
	*ret_more = (uint32_t)more_slots;
	return 0;
}
