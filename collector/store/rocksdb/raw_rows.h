// SPDX-License-Identifier: Apache-2.0
// The rows of one batch in one window, encoded for the write-ahead log: quick to write, series
// found without reading the others. They live until their window is closed and becomes chunks.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rows.h"

/** One series' rows in the run. */
struct raw_section {
	uint32_t series;
	uint32_t count;
	uint32_t offset; // of its rows, from the first row's byte
	bool has_intervals;
};

/** An encoded run as read: its bytes (owned) and where each series is. */
struct raw_rows {
	struct bytes rows;
	uint64_t slot_ns;
	uint64_t scale;
	struct raw_section *sections; // by series, ascending
	uint32_t section_count;
	uint32_t row_count;
};

/** Append @count rows, sorted by (series, slot), none twice the same series and slot and node. */
int raw_rows_encode(const struct row *rows, uint32_t count, uint64_t slot_ns,
		    struct buffer *record);

/** Read the directory of @record, which must live as long. -EBADMSG if damaged; -ENOMEM. */
int raw_rows_open(struct bytes record, struct raw_rows *ret_rows);
void raw_rows_deinit(struct raw_rows *rows);

/** Append the rows of section number @section to @to, which has room. -EBADMSG if damaged. */
int raw_rows_read(const struct raw_rows *rows, uint32_t section, struct row *to);

/** The rows that @query wants. Returns 0, -ENOMEM, -EBADMSG or what the receiver returned. */
int raw_rows_scan(const struct raw_rows *rows, const struct row_query *query,
		  struct row_columns *scratch);
