// SPDX-License-Identifier: Apache-2.0
// The layout of a chunk: docs/format.md. A head of varints:
//
//   version, slot_ns, scale, series count, row count, palette size, palette (ascending deltas),
//   from CHUNK_VERSION_SPAN on: minutes that the rows may lie in, a bit for each column that is not empty
//   for each column (from CHUNK_VERSION_SPAN on: that is not empty): unpacked size, packed size (0: raw)
//
// then the columns, each a zstd frame or raw bytes:
//
//   directory  per series: delta to the series before, number of positions
//   slots      per position: delta to the slot before (the first of a series: to 0)
//   nodes      per node: delta to the node before
//   counts     per node: rows - 1
//   values     per row, by (position, node): index into the palette, or VALUE_ESCAPE
//   escapes    per escaped value: value / scale, zig-zag
//   bits       per row, by (node, position): its distance's bits below the highest
//   classes    per row, by (node, position): its distance's width; one column per class of nodes
//   lengths    per position: more_slots; only in versions with intervals
//   sums       the mean of a row's value / scale, then per node: the sum of its rows' less as many means, all zig-zag;
//              from CHUNK_VERSION_SUMS on, where nodes have SUMS_ROWS_MIN rows on average
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/store/rocksdb/record_limits.h"

enum {
	CHUNK_VERSION = 1,           // no row is an interval
	CHUNK_VERSION_INTERVALS = 2, // with the column of lengths
	CHUNK_VERSION_SPAN = 3,      // of one or more minutes; no row is an interval
	CHUNK_VERSION_SPAN_INTERVALS = 4,
	CHUNK_VERSION_SUMS =
		5, // of one or more minutes, with sums; with the column of lengths if that is not empty
	CHUNK_MINUTES_MAX = 60,
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
	COLUMN_SUMS,
	COLUMN_COUNT,
};

/** The number of columns of a chunk of a version before CHUNK_VERSION_SUMS. */
static inline int chunk_column_count(bool with_lengths)
{
	return with_lengths ? COLUMN_LENGTHS + 1 : COLUMN_LENGTHS;
}

static inline bool chunk_version_has_lengths(uint64_t version)
{
	return version == CHUNK_VERSION_INTERVALS || version == CHUNK_VERSION_SPAN_INTERVALS;
}

/** The class of a node with @rows rows in a chunk of @positions (rows <= positions). */
static inline uint32_t chunk_class(uint32_t positions, uint32_t rows)
{
	int class =
		__builtin_clz(rows) - __builtin_clz(positions); // log2 of the quotient, or one more

	return (uint32_t)(class - ((uint64_t)rows << class > positions));
}
