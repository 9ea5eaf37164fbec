// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_gauge.h"

#include <errno.h>

#include "base/clock.h"
#include "base/contract/profile_type.h"

enum { TAIL_SECONDS = 2 }; // of the newest data: the gauge's values may not have arrived yet

static uint64_t whole_seconds(uint64_t ns)
{
	return ns / NS_PER_SECOND + (ns % NS_PER_SECOND != 0);
}

void query_widen_gauge(struct query *query)
{
	if (!query->type || !profile_type_is_gauge(query->type))
		return;
	query->range.from_ns = query->range.from_ns / NS_PER_SECOND * NS_PER_SECOND;
	query->range.to_ns = whole_seconds(query->range.to_ns) * NS_PER_SECOND;
	query_ranges_widen(&query->parts, NS_PER_SECOND);
}

/** Count the seconds before @end without any value, at most TAIL_SECONDS. */
static int count_empty_tail(const struct query *query, const struct store_selection *selection,
			    uint64_t end, uint64_t *ret_empty, struct error *err)
{
	const struct time_range tail = { (end - TAIL_SECONDS) * NS_PER_SECOND,
					 end * NS_PER_SECOND };
	int64_t values[TAIL_SECONDS] = { 0 };
	uint64_t empty = 0;

	int rc = store_activity(query->store, selection, tail, NS_PER_SECOND, NULL, values, err);
	if (rc)
		return rc;
	while (empty < TAIL_SECONDS && !values[TAIL_SECONDS - 1 - empty])
		empty++;
	*ret_empty = empty;
	return 0;
}

/** The seconds of @range between the store's oldest and newest data. */
static int count_seconds(const struct query *query, const struct store_selection *selection,
			 struct time_range range, const struct store_stats *stats,
			 uint64_t *ret_seconds, struct error *err)
{
	uint64_t begin = range.from_ns / NS_PER_SECOND;
	uint64_t end = whole_seconds(range.to_ns), empty = 0;

	// Seconds before the first data, or after the last, are not seconds of value 0.
	if (begin < stats->oldest_ns / NS_PER_SECOND)
		begin = stats->oldest_ns / NS_PER_SECOND;
	if (end > stats->newest_ns / NS_PER_SECOND) {
		end = stats->newest_ns / NS_PER_SECOND + 1;
		if (end >= begin + 2 * TAIL_SECONDS) {
			int rc = count_empty_tail(query, selection, end, &empty, err);
			if (rc)
				return rc;
			end -= empty;
		}
	}
	*ret_seconds = end > begin ? end - begin : 0;
	return 0;
}

int query_gauge_seconds(const struct query *query, const struct store_selection *selection,
			int64_t *ret_seconds, struct error *err)
{
	uint64_t sum = 0, seconds;
	struct store_stats stats;
	uint32_t count;
	const struct time_range *parts = query_parts(query, &count);

	*ret_seconds = 1;
	if (!query->type || !profile_type_is_gauge(query->type) || !selection->series_count)
		return 0;
	store_read_stats(query->store, &stats);
	for (uint32_t i = 0; i < count; i++) {
		int rc = count_seconds(query, selection, parts[i], &stats, &seconds, err);
		if (rc)
			return rc;
		sum += seconds;
	}
	if (sum)
		*ret_seconds = (int64_t)sum;
	return 0;
}

int64_t query_gauge_mean(int64_t sum, int64_t seconds)
{
	int64_t half = sum < 0 ? -(seconds / 2) : seconds / 2;

	// Values come from agents: one too large to be rounded is truncated.
	if (__builtin_add_overflow(sum, half, &half))
		return sum / seconds;
	return half / seconds;
}

int query_refuse_gauge(const struct query *query, const char *what, struct error *err)
{
	if (!query->type || !profile_type_is_gauge(query->type))
		return 0;
	return error_set(err, -EINVAL,
			 "%s is a gauge, one value a second, and has no %s; ask for "
			 "/api/v1/series",
			 query->type, what);
}
