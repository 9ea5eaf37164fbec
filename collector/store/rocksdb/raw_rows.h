// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes a run: the rows of one batch in one minute. Quick to write; a series is found
// without reading the others. A run lives until its minute is closed.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "collector/store/rocksdb/record_limits.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rows.h"

/** One series' rows in the run. */
struct raw_section {
	uint32_t series;
	uint32_t count;
	uint32_t offset; // of its rows in raw_rows.rows
	bool has_intervals;
};

/** An encoded run, and where each series is in it. */
struct raw_rows {
	struct bytes rows;
	uint64_t slot_ns;
	uint64_t scale;
	struct raw_section *sections; // by series, ascending
	uint32_t section_count;
	uint32_t row_count;
};

/**
 * Append a run of @rows, which are sorted by (series, slot). Returns 0; -ENOMEM; -E2BIG above
 * RUN_ROWS_MAX.
 */
int raw_rows_encode(const struct row *rows, uint32_t count, uint64_t slot_ns,
		    struct buffer *record);

/** Read the directory of @record, which must outlive @ret_rows. 0, -EBADMSG (damaged), -ENOMEM. */
int raw_rows_open(struct bytes record, struct raw_rows *ret_rows);
void raw_rows_deinit(struct raw_rows *rows);

/** Copy the rows of section number @section to @to, which has room. 0 or -EBADMSG (damaged). */
int raw_rows_read(const struct raw_rows *rows, uint32_t section, struct row *to);

/** Read the rows that @query wants. Returns 0, -ENOMEM, -EBADMSG or what the receiver returned. */
int raw_rows_scan(const struct raw_rows *rows, const struct row_query *query,
		  struct row_columns *scratch);
