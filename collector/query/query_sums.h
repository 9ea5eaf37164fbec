// SPDX-License-Identifier: Apache-2.0
// Sums a query's rows by partition, group and node, for flame trees and exported profiles.
#pragma once

#include <stdint.h>

#include "collector/query/query_groups.h"
#include "collector/query/query_select.h"

/** One group's values in one partition. */
struct forest_sums {
	const struct store_forest *forest;
	uint32_t group;
	const uint32_t *live; // nodes with a value in or below them, ascending from node 0
	uint32_t live_count;
	const int64_t *self; // by node
	const int64_t *total;
};

/** Receives the sums. A non-zero return ends the query and is returned. */
struct sums_reader {
	void *context;
	/** A partition begins; may be NULL. */
	int (*partition)(void *context, const struct store_forest *forest);
	int (*sums)(void *context, const struct forest_sums *sums);
};

/**
 * Scan @selection and pass each (partition, group) with values to @reader, groups ascending.
 * *ret_rows: the number of rows read.
 */
int query_sum(const struct query *query, const struct store_selection *selection,
	      const struct query_groups *groups, const struct sums_reader *reader,
	      uint64_t *ret_rows, struct error *err);
