// SPDX-License-Identifier: Apache-2.0
// Values over time: series per group, and the heat map. Both read the store's activity, no stacks.
#include "collector/query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/profile_type.h"
#include "collector/query/query_gauge.h"
#include "collector/query/query_groups.h"
#include "collector/query/query_steps.h"

#define OTHER_GROUP "other"

enum { GROUP_BY_BYTES = QUERY_GROUP_LABELS_MAX * (LABEL_NAME_BYTES_MAX + 1) };

/** A group and its total. */
struct ranked_group {
	uint32_t group;
	int64_t total;
};

static int compare_groups(const void *a, const void *b)
{
	const struct ranked_group *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->group > y->group) - (x->group < y->group);
}

static void query_series_deinit(struct query_series *series)
{
	free(series->group);
	free(series->values);
	labels_deinit(&series->labels);
}

/** The rows of the answer, and which series go to each. */
struct row_plan {
	struct query_groups groups;
	uint32_t *row_of_group;
	uint32_t *row_of_series;
	uint32_t row_count;
	struct query_series *rows; // without values
};

/** The labels to group by. */
struct group_labels {
	char text[GROUP_BY_BYTES];
	const char *names[QUERY_GROUP_LABELS_MAX];
	uint32_t count;
};

static void row_plan_deinit(struct row_plan *plan)
{
	query_groups_deinit(&plan->groups);
	free(plan->row_of_group);
	free(plan->row_of_series);
	for (uint32_t i = 0; plan->rows && i < plan->row_count; i++)
		query_series_deinit(&plan->rows[i]);
	free(plan->rows);
}

/** Split @group_by, "knob,step"; NULL: none. Returns 0 or -EINVAL. */
static int split_labels(const char *group_by, struct group_labels *ret_labels)
{
	char *rest = ret_labels->text, *name;

	ret_labels->count = 0;
	if ((size_t)snprintf(ret_labels->text, sizeof(ret_labels->text), "%s",
			     group_by ? group_by : "") >= sizeof(ret_labels->text))
		return -EINVAL;
	while ((name = strsep(&rest, ",")) && group_by) {
		if (ret_labels->count == QUERY_GROUP_LABELS_MAX)
			return -EINVAL;
		ret_labels->names[ret_labels->count++] = name;
	}
	return 0;
}

/** Name a row by the values that @series has of several labels. */
static int name_row(const struct store_series *series, const struct group_labels *labels,
		    struct query_series *row)
{
	_cleanup_(buffer_deinit) struct buffer group = { 0 };

	for (uint32_t i = 0; i < labels->count; i++) {
		const char *value = labels_get(&series->labels, labels->names[i]);
		int rc = value ? labels_set(&row->labels, labels->names[i], value) : 0;

		if (rc)
			return rc;
		if (value)
			buffer_printf(&group, "%s%s", group.size ? ", " : "", value);
	}
	row->group = strdup(group.rc ? "" : buffer_string(&group));
	return row->group ? group.rc : -ENOMEM;
}

/** Read the groups' totals: the largest get a row of their own. */
static int rank_groups(const struct query *query, const struct store_selection *selection,
		       const struct row_plan *plan, struct time_range range,
		       struct ranked_group *ranked, uint32_t ranked_count, struct error *err)
{
	_cleanup_free_ int64_t *totals = calloc(plan->groups.count, sizeof(*totals));
	if (!totals)
		return error_set(err, -ENOMEM, "out of memory for %u groups", plan->groups.count);

	int rc = store_activity(query->store, selection, range, range.to_ns - range.from_ns,
				plan->groups.of_series, totals, err);
	if (rc)
		return rc;

	for (uint32_t i = 0; i < ranked_count; i++)
		ranked[i].total = totals[ranked[i].group];
	qsort(ranked, ranked_count, sizeof(*ranked), compare_groups);
	return 0;
}

/** Assign rows in order; groups beyond QUERY_GROUPS_MAX share the last row. */
static int assign_rows(struct row_plan *plan, const struct ranked_group *ranked, uint32_t count,
		       const struct store_selection *selection, const struct group_labels *labels)
{
	uint32_t named = count < QUERY_GROUPS_MAX ? count : QUERY_GROUPS_MAX;

	plan->row_count = named + (count > named);
	plan->rows = calloc(plan->row_count + 1ULL, sizeof(*plan->rows));
	plan->row_of_group = calloc(plan->groups.count, sizeof(*plan->row_of_group));
	plan->row_of_series = calloc(selection->series_count + 1ULL, sizeof(*plan->row_of_series));
	if (!plan->rows || !plan->row_of_group || !plan->row_of_series)
		return -ENOMEM;

	for (uint32_t i = 0; i < count; i++)
		plan->row_of_group[ranked[i].group] = i < named ? i : named;
	for (uint32_t i = 0; i < plan->row_count; i++) {
		struct query_series *row = &plan->rows[i];

		if (i < named && labels->count > 1) {
			uint32_t first = plan->groups.first_series[ranked[i].group];
			int rc = name_row(&selection->series[first], labels, row);

			if (rc)
				return rc;
			continue;
		}
		row->group =
			strdup(i < named ? string_table_get(&plan->groups.keys, ranked[i].group)
					 : OTHER_GROUP);
		if (!row->group)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < selection->series_count; i++)
		plan->row_of_series[i] = plan->row_of_group[plan->groups.of_series[i]];
	return 0;
}

static int plan_rows(const struct query *query, const struct store_selection *selection,
		     struct time_range range, struct row_plan *plan, struct error *err)
{
	struct group_labels labels;

	if (split_labels(query->group_by, &labels))
		return error_set(err, -EINVAL, "group_by: more than %d labels, or too long",
				 QUERY_GROUP_LABELS_MAX);
	int rc = query_groups_init(&plan->groups, selection, labels.names, labels.count);
	if (rc)
		return error_set(err, rc, "too many values of %s to group by", query->group_by);

	_cleanup_free_ struct ranked_group *ranked = calloc(plan->groups.count, sizeof(*ranked));
	if (!ranked)
		return error_set(err, -ENOMEM, "out of memory for %u groups", plan->groups.count);

	uint32_t count = 0;
	for (uint32_t group = 0; group < plan->groups.count; group++) {
		if (plan->groups.first_series[group] != UINT32_MAX || !query->group_by)
			ranked[count++].group = group;
	}
	if (count > QUERY_GROUPS_MAX) {
		rc = rank_groups(query, selection, plan, range, ranked, count, err);
		if (rc)
			return rc;
	}
	rc = assign_rows(plan, ranked, count, selection, &labels);
	return rc ? error_set(err, rc, "out of memory for %u groups", count) : 0;
}

void query_series_set_deinit(struct query_series_set *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		query_series_deinit(&set->series[i]);
	free(set->series);
	*set = (struct query_series_set){ 0 };
}

static int64_t sum_values(const int64_t *values, uint32_t count)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum += (uint64_t)values[i];
	return (int64_t)sum;
}

static int compare_series(const void *a, const void *b)
{
	const struct query_series *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return strcmp(x->group, y->group);
}

/** Copy the rows of @values to the series of @set. */
static int fill_set(struct query_series_set *set, struct row_plan *plan, const int64_t *values)
{
	size_t bytes = set->step_count * sizeof(*values);

	set->series = calloc(plan->row_count + 1ULL, sizeof(*set->series));
	if (!set->series)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->row_count; i++) {
		struct query_series *series = &set->series[set->count];

		series->values = malloc(bytes);
		if (!series->values)
			return -ENOMEM;
		memcpy(series->values, values + (size_t)i * set->step_count, bytes);
		series->total = sum_values(series->values, set->step_count);
		series->group = take(plan->rows[i].group);
		series->labels = plan->rows[i].labels;
		plan->rows[i].labels = (struct labels){ 0 };
		set->count++;
	}
	qsort(set->series, set->count, sizeof(*set->series), compare_series);
	return 0;
}

/** Round up to whole seconds: a gauge has one value in each. */
static uint64_t gauge_step(uint64_t step_ns)
{
	uint64_t seconds = step_ns / NS_PER_SECOND + (step_ns % NS_PER_SECOND != 0);

	return step_ns ? seconds * NS_PER_SECOND : 0;
}

/** Divide values by the step's seconds, and totals by all seconds. */
static void average_set(struct query_series_set *set)
{
	int64_t seconds = (int64_t)(set->step_ns / NS_PER_SECOND);

	for (uint32_t i = 0; i < set->count; i++) {
		struct query_series *series = &set->series[i];

		series->total /= seconds * set->step_count;
		for (uint32_t step = 0; step < set->step_count; step++)
			series->values[step] /= seconds;
	}
}

int query_series(const struct query *query, uint64_t step_ns, struct query_series_set *ret_set,
		 struct error *err)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(query_series_set_deinit) struct query_series_set set = { 0 };
	_cleanup_(row_plan_deinit) struct row_plan plan = { 0 };
	bool is_gauge = query->type && profile_type_is_gauge(query->type);
	struct query whole = *query;

	if (is_gauge)
		step_ns = gauge_step(step_ns);
	set.step_ns = step_ns;
	int rc = query_steps_align(query->range, step_ns, QUERY_POINTS_MAX, &whole.range, err);
	if (!rc)
		rc = query_select(&whole, &selection, err);
	if (!rc)
		rc = plan_rows(&whole, selection, whole.range, &plan, err);
	if (rc)
		return rc;

	set.first_step_ns = whole.range.from_ns;
	set.resolution_ns = store_resolution(query->store, whole.range);
	set.step_count = (uint32_t)((whole.range.to_ns - whole.range.from_ns) / step_ns);
	_cleanup_free_ int64_t *values =
		calloc((size_t)plan.row_count * set.step_count + 1, sizeof(*values));
	if (!values)
		return error_set(err, -ENOMEM, "out of memory for %u series", plan.row_count);

	if (selection->series_count)
		rc = store_activity(query->store, selection, whole.range, step_ns,
				    plan.row_of_series, values, err);
	if (rc)
		return rc;
	rc = fill_set(&set, &plan, values);
	if (rc)
		return error_set(err, rc, "out of memory for %u series", plan.row_count);
	if (is_gauge)
		average_set(&set);

	*ret_set = set;
	set = (struct query_series_set){ 0 };
	return 0;
}

void heat_map_deinit(struct heat_map *map)
{
	free(map->values);
	free(map->peaks);
	*map = (struct heat_map){ 0 };
}

/** Reduce @count slots of the map to sums and peaks of @per_slot finer ones each. */
static void reduce_slots(const int64_t *fine, uint64_t per_slot, uint32_t count, int64_t *values,
			 int64_t *peaks)
{
	for (uint32_t i = 0; i < count; i++, fine += per_slot) {
		uint64_t sum = 0;

		peaks[i] = fine[0];
		for (uint64_t k = 0; k < per_slot; k++) {
			sum += (uint64_t)fine[k];
			if (fine[k] > peaks[i])
				peaks[i] = fine[k];
		}
		values[i] = (int64_t)sum;
	}
}

/** Fill values and peaks from slots of @peak_ns, which are read a part of the range at a time. */
static int read_peaks(const struct query *query, const struct store_selection *selection,
		      uint64_t peak_ns, struct heat_map *map, struct error *err)
{
	uint64_t per_slot = map->slot_ns / peak_ns;
	uint64_t slots = per_slot < QUERY_FINE_SLOTS_MAX ? QUERY_FINE_SLOTS_MAX / per_slot : 1;
	uint32_t at_once = slots < map->slot_count ? (uint32_t)slots : map->slot_count;
	_cleanup_free_ int64_t *fine = calloc(at_once, per_slot * sizeof(*fine));

	map->peaks = calloc(map->slot_count, sizeof(*map->peaks));
	if (!fine || !map->peaks)
		return error_set(err, -ENOMEM, "out of memory for %u slots", map->slot_count);
	for (uint32_t first = 0; selection->series_count && first < map->slot_count;
	     first += at_once) {
		uint32_t left = map->slot_count - first, count = left < at_once ? left : at_once;
		const struct time_range part = {
			map->from_ns + first * map->slot_ns,
			map->from_ns + (first + (uint64_t)count) * map->slot_ns,
		};

		memset(fine, 0, count * per_slot * sizeof(*fine));
		int rc = store_activity(query->store, selection, part, peak_ns, NULL, fine, err);
		if (rc)
			return rc;
		reduce_slots(fine, per_slot, count, map->values + first, map->peaks + first);
	}
	return 0;
}

/** Can slots of @slot_ns be divided into ones of @peak_ns, few enough to be read at once? */
static int check_peak(uint64_t slot_ns, uint64_t peak_ns, struct error *err)
{
	if (!peak_ns || (slot_ns % peak_ns == 0 && slot_ns / peak_ns <= QUERY_FINE_SLOTS_MAX))
		return 0;
	return error_set(err, -EINVAL,
			 "the slot has to be a multiple of peak, at most %d times as long",
			 QUERY_FINE_SLOTS_MAX);
}

int query_heat_map(const struct query *query, uint64_t slot_ns, uint64_t peak_ns,
		   struct heat_map *ret_map, struct error *err)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(heat_map_deinit) struct heat_map map = { .slot_ns = slot_ns };
	struct query whole = *query;

	int rc = query_refuse_gauge(query, "heat map", err);
	if (!rc)
		rc = query_steps_align(query->range, slot_ns, QUERY_SLOTS_MAX, &whole.range, err);
	if (!rc)
		rc = check_peak(slot_ns, peak_ns, err);
	if (!rc)
		rc = query_select(&whole, &selection, err);
	if (rc)
		return rc;

	map.from_ns = whole.range.from_ns;
	map.resolution_ns = store_resolution(query->store, whole.range);
	map.slot_count = (uint32_t)((whole.range.to_ns - whole.range.from_ns) / slot_ns);
	map.values = calloc(map.slot_count, sizeof(*map.values));
	if (!map.values)
		return error_set(err, -ENOMEM, "out of memory for %u slots", map.slot_count);

	if (peak_ns)
		rc = read_peaks(query, selection, peak_ns, &map, err);
	else if (selection->series_count)
		rc = store_activity(query->store, selection, whole.range, slot_ns, NULL, map.values,
				    err);
	if (rc)
		return rc;

	for (uint32_t i = 0; i < map.slot_count; i++) {
		if (map.values[i] > map.value_max)
			map.value_max = map.values[i];
	}
	*ret_map = map;
	map = (struct heat_map){ 0 };
	return 0;
}
