// SPDX-License-Identifier: Apache-2.0
// The limits that an encoder and its decoder share: what is written can be read. An encoder splits or
// refuses what its decoder would call damaged.
#pragma once

#include <assert.h>

#include "base/contract/profile_type.h"
#include "base/labels.h"

enum {
	// Rows of one run: a larger batch becomes several runs of a minute.
	RUN_ROWS_MAX = 4 << 20,
	// Rows that are read to close a minute: 128 MB of memory. A minute with more is closed in
	// portions, each with chunks and rollups of its own.
	CLOSE_ROWS_MAX = RUN_ROWS_MAX,
	// A decoder refuses more as damaged. Above CHUNK_ROWS_MAX, as a series is not split within a
	// portion, and a rollup has a row per node of the partition.
	CHUNK_ROWS_LIMIT = 1 << 24,
	RUN_ROWS_LIMIT = 1 << 24,     // of a section
	COLUMN_BYTES_MAX = 256 << 20, // of a chunk, unpacked
	COLUMN_VALUE_BYTES_MAX = 10,  // a varint
	// 4 Mi nodes take 64 MB with their index. A service of 20,000 distinct stacks has about
	// 100,000 nodes: 4 Mi in one hour are generated or hostile.
	FOREST_NODES_MAX = 4 << 20,
	FOREST_STACKS_MAX = 2 << 20,
	// A host has a few hundred series an hour: 256 Ki are a thousand hosts and take about 100
	// MB.
	POSTINGS_SERIES_MAX = 256 << 10,
	// Labels whose values never repeat (request ids) reach this limit first.
	POSTINGS_PAIRS_MAX = 1 << 20,
};

static_assert(CLOSE_ROWS_MAX <= CHUNK_ROWS_LIMIT, "a portion fits a chunk");
static_assert(RUN_ROWS_MAX <= RUN_ROWS_LIMIT && RUN_ROWS_MAX <= CLOSE_ROWS_MAX,
	      "a run fits a portion");
static_assert(FOREST_NODES_MAX <= CHUNK_ROWS_LIMIT, "a rollup fits a chunk");
static_assert((long long)CHUNK_ROWS_LIMIT * COLUMN_VALUE_BYTES_MAX <= COLUMN_BYTES_MAX,
	      "the columns of a chunk fit");
static_assert(5 * PROFILE_TYPE_PART_BYTES <= LABEL_VALUE_BYTES_MAX, "a type fits a label");
