// SPDX-License-Identifier: Apache-2.0
// Copies a query's samples with their time slots into a profile, for timelines of threads.
#include "collector/query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/profile_types.h"
#include "base/profile/wall_stacks.h"
#include "collector/query/profile_builder.h"
#include "collector/query/query_gauge.h"
#include "collector/store/deadline.h"
#include "collector/store/interval.h"
#include "collector/symbols/symbolizer.h"

#define TIMELINE_SLOT_NS NS_PER_MS // every agent's slot is a multiple of it

struct timeline {
	struct profile_builder builder;
	const struct store_selection *selection;
	struct time_range range; // that is being scanned
	uint32_t *series_of;     // by the selection's series: the profile's, UINT32_MAX: not yet
	const struct store_forest *forest; // of the partition
	uint32_t *stack_of;                // of the partition, by node
};

static void timeline_deinit(struct timeline *timeline)
{
	profile_builder_deinit(&timeline->builder);
	free(timeline->series_of);
	free(timeline->stack_of);
}

static uint32_t *new_map(size_t count)
{
	uint32_t *map = malloc((count + 1) * sizeof(*map));

	if (map)
		memset(map, 0xff, count * sizeof(*map));
	return map;
}

static int on_partition(void *context, const struct store_forest *forest)
{
	struct timeline *timeline = context;

	free(timeline->stack_of);
	timeline->stack_of = new_map(forest->node_count);
	timeline->forest = forest;
	return timeline->stack_of ? profile_builder_begin(&timeline->builder, forest)
				  : profile_builder_fail(&timeline->builder, -ENOMEM);
}

/** Stacks are numbered anew in the next one. */
static int on_partition_end(void *context)
{
	struct timeline *timeline = context;

	timeline->forest = NULL;
	return 0;
}

static int find_series(struct timeline *timeline, uint32_t number)
{
	const struct store_series *series = &timeline->selection->series[number];

	if (timeline->series_of[number] != UINT32_MAX)
		return 0;
	int rc = profile_add_series(timeline->builder.profile, &series->labels, series->type,
				    &timeline->series_of[number]);
	return rc ? profile_builder_fail(&timeline->builder, rc) : 0;
}

static int add_sample(struct timeline *timeline, uint32_t series, uint64_t slot_ns, uint64_t slot,
		      uint32_t more_slots, uint32_t node, int64_t value)
{
	const struct time_range *range = &timeline->range;
	struct profile *profile = timeline->builder.profile;
	// A slot counts where it begins.
	uint64_t from = (range->from_ns + slot_ns - 1) / slot_ns;
	uint64_t to = (range->to_ns + slot_ns - 1) / slot_ns, end = slot + more_slots + 1;
	int64_t within = interval_within(slot, more_slots, value, from, to);
	int rc = 0;

	if (!within)
		return 0;
	if (profile->sample_count == QUERY_TIMELINE_SAMPLES_MAX)
		return error_set(timeline->builder.err, -E2BIG,
				 "the range has more than %d samples with time; choose a shorter "
				 "range or fewer series",
				 QUERY_TIMELINE_SAMPLES_MAX);
	slot = slot < from ? from : slot;
	end = end > to ? to : end;
	if (timeline->stack_of[node] == UINT32_MAX)
		rc = profile_builder_add_stack(&timeline->builder, timeline->forest, node,
					       &timeline->stack_of[node]);
	if (rc)
		return rc;
	uint64_t slots = (end - slot) * slot_ns / TIMELINE_SLOT_NS;
	rc = profile_add_interval(profile, series, timeline->stack_of[node],
				  slot * slot_ns / TIMELINE_SLOT_NS,
				  slots ? (uint32_t)(slots - 1) : 0, within);
	return rc ? profile_builder_fail(&timeline->builder, rc) : 0;
}

static int on_rows(void *context, const struct store_rows *rows)
{
	struct timeline *timeline = context;
	int rc = deadline_check(timeline->builder.query->selector->deadline, timeline->builder.err);

	if (!rc)
		rc = find_series(timeline, rows->series);
	for (uint32_t i = 0; !rc && i < rows->count; i++) {
		if (rows->nodes[i] >= timeline->forest->node_count)
			return error_set(timeline->builder.err, -EIO,
					 "store: a row refers to stack node %u of %u",
					 rows->nodes[i], timeline->forest->node_count);
		rc = add_sample(timeline, timeline->series_of[rows->series], rows->slot_ns,
				rows->slots[i], rows->more_slots ? rows->more_slots[i] : 0,
				rows->nodes[i], rows->values[i]);
	}
	return rc;
}

static int scan_parts(struct timeline *timeline)
{
	const struct query *query = timeline->builder.query;
	const struct store_scanner scanner = {
		.context = timeline,
		.detail = SCAN_ROWS,
		.partition = on_partition,
		.rows = on_rows,
		.partition_end = on_partition_end,
	};

	uint32_t count;
	const struct time_range *parts = query_parts(query, &count);

	for (uint32_t i = 0; timeline->selection->series_count && i < count; i++) {
		timeline->range = parts[i];
		int rc = store_scan(query->store, timeline->selection, timeline->range, &scanner,
				    timeline->builder.err);
		if (rc)
			return rc;
	}
	return 0;
}

/** Add the samples of the selected series that have @type. */
static int scan_type(struct timeline *timeline, const char *type)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	struct query query = *timeline->builder.query;

	query.type = type;
	int rc = query_select(&query, &selection, timeline->builder.err);
	if (rc)
		return rc;
	free(timeline->series_of);
	timeline->series_of = new_map(selection->series_count);
	if (!timeline->series_of)
		return profile_builder_fail(&timeline->builder, -ENOMEM);
	timeline->selection = selection;
	rc = scan_parts(timeline);
	timeline->selection = NULL;
	return rc;
}

/** Give wall-clock time, which is stored without stacks, those of its parts. */
static int add_wall_stacks(struct timeline *timeline)
{
	const char *type;
	int rc = 0;

	for (uint32_t i = 0; !rc && (type = wall_stacks_type(i)); i++)
		rc = scan_type(timeline, type);
	if (rc)
		return rc;
	rc = wall_stacks_compose(timeline->builder.profile);
	return rc ? profile_builder_fail(&timeline->builder, rc) : 0;
}

int query_timeline(const struct query *query, struct profile **ret_profile, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(TIMELINE_SLOT_NS);
	_cleanup_(timeline_deinit) struct timeline timeline = {
		.builder = { .profile = profile,
			     .query = query,
			     .err = err,
			     .symbolizer_ns = SYMBOLIZER_NS_MAX },
	};

	if (!profile)
		return error_set(err, -ENOMEM, "out of memory for an exported profile");
	int rc = query_refuse_gauge(query, "timeline", err);
	if (!rc)
		rc = scan_type(&timeline, query->type);
	if (!rc && strcmp(query->type, PROFILE_TYPE_WALL) == 0)
		rc = add_wall_stacks(&timeline);
	if (rc)
		return rc;
	profile->from_ns = query->range.from_ns;
	profile->to_ns = query->range.to_ns;
	profile_sort_samples(profile);
	*ret_profile = take(profile);
	return 0;
}
