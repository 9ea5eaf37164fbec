// SPDX-License-Identifier: Apache-2.0
#include "collector/compare/exposure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "collector/query/query_groups.h"

#define STEP_NS_MIN (20 * NS_PER_MS) // an agent's time slot

/** The steps in which an instance is looked for. */
struct steps {
	struct time_range range;
	uint64_t step_ns;
	uint32_t count;
};

static struct steps steps_of(struct time_range range)
{
	uint64_t step_ns = (range.to_ns - range.from_ns + EXPOSURE_STEPS - 1) / EXPOSURE_STEPS;
	struct steps steps = { .range = range };

	steps.step_ns = (step_ns + STEP_NS_MIN - 1) / STEP_NS_MIN * STEP_NS_MIN;
	steps.count = (uint32_t)((range.to_ns - range.from_ns + steps.step_ns - 1) / steps.step_ns);
	steps.range.to_ns = range.from_ns + steps.count * steps.step_ns; // whole steps
	return steps;
}

static int group_instances(const struct store_selection *selection, const char *per,
			   struct query_groups *groups)
{
	static const char *const automatic[] = { LABEL_TENANT, LABEL_NODE, LABEL_NAMESPACE,
						 LABEL_POD };

	if (strcmp(per, EXPOSURE_PER_AUTO) == 0)
		return query_groups_init(groups, selection, automatic, ARRAY_SIZE(automatic));
	return query_groups_init(groups, selection, &per, strcmp(per, EXPOSURE_PER_NONE) ? 1 : 0);
}

/** When the instance with these @counts was there; an empty range: never. */
static struct time_range presence_of(const struct steps *steps, const int64_t *counts)
{
	uint32_t first = 0, end = steps->count;

	while (first < end && !counts[first])
		first++;
	while (end > first && !counts[end - 1])
		end--;
	return (struct time_range){ steps->range.from_ns + first * steps->step_ns,
				    steps->range.from_ns + end * steps->step_ns };
}

static double overlap(struct time_range a, struct time_range b)
{
	uint64_t from_ns = a.from_ns > b.from_ns ? a.from_ns : b.from_ns;
	uint64_t to_ns = a.to_ns < b.to_ns ? a.to_ns : b.to_ns;

	return from_ns < to_ns ? (double)(to_ns - from_ns) : 0;
}

static void add_instance(struct exposure *exposure, const struct time_blocks *blocks,
			 struct time_range present)
{
	bool seen = false;

	for (uint32_t i = 0; i < blocks->count; i++) {
		double ns = overlap(blocks->blocks[i], present);

		exposure->block_ns[i] += ns;
		exposure->total_ns += ns;
		seen |= ns > 0;
	}
	exposure->instances += seen;
}

int exposure_of(const struct query *query, const struct store_selection *selection,
		const struct time_blocks *blocks, const char *per, struct exposure *ret_exposure,
		struct error *err)
{
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	_cleanup_free_ int64_t *counts = NULL;
	const struct steps steps = steps_of(query->range);

	memset(ret_exposure, 0, sizeof(*ret_exposure));
	if (!selection->series_count)
		return 0;
	int rc = group_instances(selection, per, &groups);
	if (rc)
		return error_set(err, rc, "too many instances to compare per each");
	if ((uint64_t)groups.count * steps.count * sizeof(*counts) > EXPOSURE_BYTES_MAX)
		return error_set(err, -E2BIG,
				 "%u instances are too many to compare per each (limit %u): choose "
				 "fewer series, or per=none",
				 groups.count,
				 (uint32_t)(EXPOSURE_BYTES_MAX / sizeof(*counts) / steps.count));
	rc = array_allocate(&counts, (size_t)groups.count * steps.count, sizeof(*counts));
	if (rc)
		return error_set(err, rc, "out of memory for %u instances", groups.count);
	rc = store_activity(query->store, selection, steps.range, steps.step_ns, groups.of_series,
			    counts, err);
	if (rc)
		return rc;

	for (uint32_t i = 0; i < groups.count; i++)
		add_instance(ret_exposure, blocks,
			     presence_of(&steps, &counts[(size_t)i * steps.count]));
	return 0;
}
