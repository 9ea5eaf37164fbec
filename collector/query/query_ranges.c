// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_ranges.h"

#include <stdlib.h>

static int compare_ranges(const void *a, const void *b)
{
	const struct time_range *x = a, *y = b;

	return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

void query_ranges_tidy(struct query_ranges *ranges)
{
	uint32_t kept = 0;

	qsort(ranges->at, ranges->count, sizeof(*ranges->at), compare_ranges);
	for (uint32_t i = 0; i < ranges->count; i++) {
		const struct time_range next = ranges->at[i];

		if (!kept || next.from_ns > ranges->at[kept - 1].to_ns)
			ranges->at[kept++] = next;
		else if (next.to_ns > ranges->at[kept - 1].to_ns)
			ranges->at[kept - 1].to_ns = next.to_ns;
	}
	ranges->count = kept;
}

void query_ranges_widen(struct query_ranges *ranges, uint64_t unit_ns)
{
	for (uint32_t i = 0; i < ranges->count; i++) {
		struct time_range *range = &ranges->at[i];
		uint64_t rest = range->to_ns % unit_ns;

		range->from_ns -= range->from_ns % unit_ns;
		if (rest && range->to_ns <= UINT64_MAX - unit_ns)
			range->to_ns += unit_ns - rest;
	}
	query_ranges_tidy(ranges);
}

struct time_range query_ranges_hull(const struct query_ranges *ranges)
{
	return (struct time_range){ ranges->at[0].from_ns, ranges->at[ranges->count - 1].to_ns };
}
