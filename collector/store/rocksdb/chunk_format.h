// SPDX-License-Identifier: Apache-2.0
// What chunk_encode.c and chunk_decode.c agree on. A chunk is a head of varints:
//
//   version, slot_ns, scale, series count, row count, palette size, palette (ascending deltas),
//   for each column: size unpacked, size packed (0: as it is)
//
// and the columns, each a zstd frame or its bytes as they are:
//
//   directory  per series: delta to the series before, slots with rows
//   slots      per series: the slots with rows, deltas; each is a position
//   nodes      the nodes, deltas
//   counts     per node: rows - 1
//   values     per row, by (position, node): a number in the palette, or VALUE_ESCAPE
//   escapes    per escaped value: value / scale, zig-zag
//   bits       per row, by (node, position): the bits of its distance below the highest
//   classes    per row, by (node, position): how many bits its distance has; a column for each
//              class of its node
//   lengths    version 2: per position, more_slots; the positions of a slot are by length
//
// A chunk without intervals is of version 1.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	CHUNK_VERSION = 1,
	CHUNK_VERSION_INTERVALS = 2,
	// A series is never split and sums have a row per node of a partition, so that a chunk may
	// be larger than CHUNK_ROWS_MAX; by more than this it is damaged.
	CHUNK_ROWS_LIMIT = 1 << 24,
	CHUNK_CLASSES = 25, // log2 of CHUNK_ROWS_LIMIT, and one
	PALETTE_MAX = 255,
	VALUE_ESCAPE = 255,
};

enum chunk_column {
	COLUMN_DIRECTORY,
	COLUMN_SLOTS,
	COLUMN_NODES,
	COLUMN_COUNTS,
	COLUMN_VALUES,
	COLUMN_ESCAPES,
	COLUMN_BITS,
	COLUMN_CLASSES, // the first of CHUNK_CLASSES
	COLUMN_LENGTHS = COLUMN_CLASSES + CHUNK_CLASSES,
	COLUMN_COUNT,
};

/** How many columns a chunk has: the last is there only with intervals. */
static inline int chunk_column_count(bool with_lengths)
{
	return with_lengths ? COLUMN_COUNT : COLUMN_LENGTHS;
}

/** The class of a node with @rows rows in a chunk of @positions (rows <= positions). */
static inline uint32_t chunk_class(uint32_t positions, uint32_t rows)
{
	return 31 - (uint32_t)__builtin_clz(positions / rows);
}
