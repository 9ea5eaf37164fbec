// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_ranges.h"

#include <errno.h>
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

static int add_range(struct query_ranges *ranges, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns >= to_ns)
		return 0;
	if (ranges->count == QUERY_RANGES_MAX)
		return -E2BIG;
	ranges->at[ranges->count++] = (struct time_range){ from_ns, to_ns };
	return 0;
}

int query_ranges_without(struct time_range range, const struct query_ranges *holes,
			 struct query_ranges *ret_rest)
{
	struct query_ranges rest = { .count = 0 };
	uint64_t at = range.from_ns;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < holes->count; i++) {
		const struct time_range *hole = &holes->at[i];

		rc = add_range(&rest, at,
			       hole->from_ns < range.to_ns ? hole->from_ns : range.to_ns);
		if (hole->to_ns > at)
			at = hole->to_ns;
	}
	if (!rc)
		rc = add_range(&rest, at, range.to_ns);
	if (!rc)
		*ret_rest = rest;
	return rc;
}
