// SPDX-License-Identifier: Apache-2.0
// What a query's rows add up to, partition by partition and group by group: the part that flame
// trees and exported profiles share.
#pragma once

#include <stdint.h>

#include "base/string_table.h"
#include "collector/query/query.h"

/** Which group each series of a selection belongs to. */
struct query_groups {
	struct string_table keys; // a group's number is its key's: the values of the labels
	uint32_t *of_series;
	uint32_t *first_series; // of each group; UINT32_MAX: no series has this key
	uint32_t count;
};

/**
 * Group by the values of @labels (@label_count names; 0: all series are group 0). With one label, a
 * group's key is its value, "" when absent. Returns 0, -ENOMEM, -E2BIG.
 */
int query_groups_init(struct query_groups *groups, const struct store_selection *selection,
		      const char *const *labels, uint32_t label_count);
void query_groups_deinit(struct query_groups *groups);

/** One group's values in one partition. */
struct forest_sums {
	const struct store_forest *forest;
	uint32_t group;
	const uint32_t *live; // nodes with a value in or below them: ascending, node 0 first
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
 * Scan @selection and hand each (partition, group) that has values to @reader, groups ascending.
 * *ret_rows: how many rows were read.
 */
int query_sum(const struct query *query, const struct store_selection *selection,
	      const struct query_groups *groups, const struct sums_reader *reader,
	      uint64_t *ret_rows, struct error *err);

/** store_select() with the query's type, and the check that its selector was not too dear. */
int query_select(const struct query *query, struct store_selection **ret_selection,
		 struct error *err);
/** Of a gauge, the query's range becomes whole seconds around it; of all else nothing changes. */
void query_widen_gauge(struct query *query);
/**
 * How many seconds of the range a gauge's sums are of: those between the store's oldest and newest data. 1
 * for what is no gauge. Returns 0 or the store's error.
 */
int query_gauge_seconds(const struct query *query, const struct store_selection *selection,
			int64_t *ret_seconds, struct error *err);
/** @sum / @seconds, rounded. */
int64_t query_gauge_mean(int64_t sum, int64_t seconds);
/** Refuses a gauge, whose values do not add up over time, with -EINVAL. @what: "a heat map". */
int query_refuse_gauge(const struct query *query, const char *what, struct error *err);
void store_selection_freep(struct store_selection **selection);
