// SPDX-License-Identifier: Apache-2.0
// Means of a gauge. A gauge has one value a second, so the sum over its rows becomes a mean when it
// is divided by the number of seconds. A second without a value counts as 0.
#pragma once

#include <stdint.h>

#include "collector/query/query_select.h"

/** Widen the range and its parts of a query for a gauge to whole seconds. Other queries do not change. */
void query_widen_gauge(struct query *query);
/**
 * *ret_seconds: the divisor of a gauge's sums, the seconds of the range or its parts between the store's oldest and
 * newest data; 1 for other types. Returns 0 or the store's error.
 */
int query_gauge_seconds(const struct query *query, const struct store_selection *selection,
			int64_t *ret_seconds, struct error *err);
/** @sum / @seconds, rounded. */
int64_t query_gauge_mean(int64_t sum, int64_t seconds);
/** -EINVAL for a gauge, whose values do not add up over time. @what: "heat map". */
int query_refuse_gauge(const struct query *query, const char *what, struct error *err);
