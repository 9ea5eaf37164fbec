// SPDX-License-Identifier: Apache-2.0
// Stacks of a gauge: what a level was on average, by stack. A gauge has one value in each second, so sums
// over rows become means by the number of seconds; a second in which a stack had nothing counts as 0.
#pragma once

#include <stdint.h>

#include "collector/query/query_select.h"

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
