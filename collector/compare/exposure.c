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
	uint64_t step_ns = (range.to_ns - range.from_ns + PRESENCE_STEPS - 1) / PRESENCE_STEPS;
	struct steps steps = { .range = range };

	steps.step_ns = (step_ns + STEP_NS_MIN - 1) / STEP_NS_MIN * STEP_NS_MIN;
	steps.count = (uint32_t)((range.to_ns - range.from_ns + steps.step_ns - 1) / steps.step_ns);
	steps.range.to_ns = range.from_ns + steps.count * steps.step_ns; // whole steps
	return steps;
}

/** A pod, outside pods what service.instance.id tells apart, or all else of a node. */
static int group_automatically(const struct store_selection *selection, struct query_groups *groups)
{
	static const char *const names[] = { LABEL_TENANT, LABEL_NODE, LABEL_NAMESPACE, LABEL_POD,
					     LABEL_INSTANCE };
	_cleanup_(query_groups_deinit) struct query_groups pods = { 0 };
	int rc = query_groups_init(groups, selection, names, ARRAY_SIZE(names));

	if (!rc)
		rc = query_groups_init(&pods, selection, names, ARRAY_SIZE(names) - 1);
	if (rc)
		return rc;
	// A pod is one, whatever its processes say of themselves: all its series join the first one's group.
	for (uint32_t i = 0; i < selection->series_count; i++)
		if (labels_get(&selection->series[i].labels, LABEL_POD))
			groups->of_series[i] =
				groups->of_series[pods.first_series[pods.of_series[i]]];
	return 0;
}

static int group_instances(const struct store_selection *selection, const char *per,
			   struct query_groups *groups)
{
	if (strcmp(per, EXPOSURE_PER_AUTO) == 0)
		return group_automatically(selection, groups);
	return query_groups_init(groups, selection, &per, strcmp(per, EXPOSURE_PER_NONE) ? 1 : 0);
}

/** When the instance with these @counts was there, within @limits; an empty range: never. */
static struct time_range find_presence(const struct steps *steps, const int64_t *counts,
				       struct time_range limits)
{
	uint32_t first = 0, end = steps->count;

	while (first < end && !counts[first])
		first++;
	while (end > first && !counts[end - 1])
		end--;
	struct time_range present = { steps->range.from_ns + first * steps->step_ns,
				      steps->range.from_ns + end * steps->step_ns };
	if (present.to_ns > limits.to_ns)
		present.to_ns = limits.to_ns;
	return present;
}

static void add_instance(struct presence *presence, struct time_range present)
{
	struct time_range *hull = &presence->hull;

	if (present.from_ns >= present.to_ns)
		return;
	if (!presence->count || present.from_ns < hull->from_ns)
		hull->from_ns = present.from_ns;
	if (!presence->count || present.to_ns > hull->to_ns)
		hull->to_ns = present.to_ns;
	presence->instances[presence->count++] = present;
}

/** Look for the instances of @groups in @range. */
static int look(const struct query *query, const struct store_selection *selection,
		const struct query_groups *groups, struct time_range range,
		struct presence *presence, struct error *err)
{
	const struct steps steps = steps_of(range);
	_cleanup_free_ int64_t *counts = NULL;

	if ((uint64_t)groups->count * steps.count * sizeof(*counts) > PRESENCE_BYTES_MAX)
		return error_set(err, -E2BIG,
				 "%u instances are too many to compare per each (limit %u): choose "
				 "fewer series, or per=none",
				 groups->count,
				 (uint32_t)(PRESENCE_BYTES_MAX / sizeof(*counts) / steps.count));
	if (array_allocate(&counts, (size_t)groups->count * steps.count, sizeof(*counts)))
		return error_set(err, -ENOMEM, "out of memory for %u instances", groups->count);
	int rc = store_activity(query->store, selection, steps.range, steps.step_ns,
				groups->of_series, counts, err);
	if (rc)
		return rc;
	presence->count = 0;
	for (uint32_t i = 0; i < groups->count; i++)
		add_instance(presence,
			     find_presence(&steps, &counts[(size_t)i * steps.count], range));
	return 0;
}

static uint64_t length_of(struct time_range range)
{
	return range.to_ns - range.from_ns;
}

void presence_deinit(struct presence *presence)
{
	free(presence->instances);
	*presence = (struct presence){ 0 };
}

int presence_of(const struct query *query, const struct store_selection *selection, const char *per,
		struct presence *ret_presence, struct error *err)
{
	_cleanup_(query_groups_deinit) struct query_groups groups = { 0 };
	_cleanup_(presence_deinit) struct presence presence = { 0 };
	struct time_range range = query->range;
	int rc = 0;

	if (!selection->series_count)
		return 0;
	rc = group_instances(selection, per, &groups);
	if (rc)
		return error_set(err, rc, "too many instances to compare per each");
	if (array_allocate(&presence.instances, groups.count, sizeof(*presence.instances)))
		return error_set(err, -ENOMEM, "out of memory for %u instances", groups.count);
	// What lived for seconds of a day is looked at again, closer.
	for (int looks = 0; !rc && looks < PRESENCE_LOOKS_MAX; looks++) {
		rc = look(query, selection, &groups, range, &presence, err);
		if (!presence.count || length_of(presence.hull) > length_of(range) / 2)
			break;
		range = presence.hull;
	}
	if (rc)
		return rc;
	*ret_presence = presence;
	presence = (struct presence){ 0 };
	return 0;
}

static double overlap(struct time_range a, struct time_range b)
{
	uint64_t from_ns = a.from_ns > b.from_ns ? a.from_ns : b.from_ns;
	uint64_t to_ns = a.to_ns < b.to_ns ? a.to_ns : b.to_ns;

	return from_ns < to_ns ? (double)(to_ns - from_ns) : 0;
}

void exposure_of(const struct presence *presence, const struct time_blocks *blocks,
		 struct exposure *ret_exposure)
{
	memset(ret_exposure, 0, sizeof(*ret_exposure));
	for (uint32_t i = 0; i < blocks->count; i++) {
		for (uint32_t j = 0; j < presence->count; j++)
			ret_exposure->block_ns[i] +=
				overlap(blocks->blocks[i], presence->instances[j]);
		ret_exposure->total_ns += ret_exposure->block_ns[i];
	}
}
