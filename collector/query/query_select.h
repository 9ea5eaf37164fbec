// SPDX-License-Identifier: Apache-2.0
// A query's arguments, and the series that it selects.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "collector/query/frame_title.h"
#include "collector/query/query_ranges.h"
#include "collector/store/store.h"

struct symbolizer;

struct query {
	struct store *store;
	const struct selector *selector; // the query ends at its deadline: -ETIMEDOUT, -ECANCELED
	const char *type;
	struct time_range range;
	// Merges and tables count only these parts of the range, tidied; none: all of it.
	struct query_ranges parts;
	const char *group_by;   // label name, or NULL; for query_series() several, "knob,step"
	enum frame_lines lines; // of trees and tables: which frames are apart for each source line
	struct symbolizer *symbolizer; // for frames that agents could not name; NULL: none
};

/** The parts of the range that count: query->parts, or the range. *ret_count: how many. */
const struct time_range *query_parts(const struct query *query, uint32_t *ret_count);
/** store_select() with the query's arguments. */
int query_select(const struct query *query, struct store_selection **ret_selection,
		 struct error *err);
void store_selection_freep(struct store_selection **selection);
