// SPDX-License-Identifier: Apache-2.0
// Values over time: series, and a heat map.
#include "collector/pyroscope/querier_time.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { STEP_DEFAULT_S = 15 };

/** Seconds, 0: the default. Returns 0 or -EINVAL. */
static int read_step(double seconds, uint64_t *ret_step_ns, struct error *err)
{
	if (seconds == 0)
		seconds = STEP_DEFAULT_S;
	if (!(seconds >= 0.01 && seconds <= (double)QUERY_RANGE_NS_MAX / NS_PER_SECOND))
		return error_set(err, -EINVAL, "step: expected 0.01 to 2678400 seconds");
	*ret_step_ns = (uint64_t)llround(seconds * NS_PER_MS) * (NS_PER_SECOND / NS_PER_MS);
	return 0;
}

// ---- series ---------------------------------------------------------------------------------

/** Labels to group by, apart: those that series have, and parts of the type. */
struct grouping {
	struct buffer ours; // "pod,node"
	uint32_t count;
	const char *theirs; // of the one label
};

static int read_grouping(char *const *names, size_t count, struct grouping *grouping,
			 struct error *err)
{
	if (count > QUERY_GROUP_LABELS_MAX)
		return error_set(err, -EINVAL, "group_by: more than %d labels",
				 QUERY_GROUP_LABELS_MAX);
	for (size_t i = 0; i < count; i++) {
		const char *ours = label_map_to_ours(names[i]);
		size_t size = strlen(ours);

		if (!size || size > LABEL_NAME_BYTES_MAX || strchr(ours, ','))
			return error_set(err, -EINVAL, "group_by: \"%.40s\" is not a label's name",
					 names[i]);
		if (label_map_type_label(names[i]))
			continue; // all series of a query have one type
		buffer_append_string(&grouping->ours, grouping->count++ ? "," : "");
		buffer_append_string(&grouping->ours, ours);
		grouping->theirs = label_map_to_theirs(ours);
	}
	buffer_string(&grouping->ours);
	return grouping->ours.rc ? error_set(err, grouping->ours.rc, "out of memory for group_by")
				 : 0;
}

/** A series as a message: it owns its arrays, strings are borrowed. */
struct series_message {
	Querier__V1__Series series;
	Querier__V1__LabelPair *pairs, **pair_pointers;
	Querier__V1__Point *points, **point_pointers;
};

static void series_message_deinit(struct series_message *message)
{
	free(message->pairs);
	free(message->pair_pointers);
	free(message->points);
	free(message->point_pointers);
}

static int make_points(struct series_message *message, const struct query_series_set *set,
		       const struct query_series *series)
{
	message->points = calloc(set->step_count + 1ULL, sizeof(*message->points));
	message->point_pointers = calloc(set->step_count + 1ULL, sizeof(*message->point_pointers));
	if (!message->points || !message->point_pointers)
		return -ENOMEM;
	for (uint32_t i = 0; i < set->step_count; i++) {
		Querier__V1__Point *point = &message->points[i];

		querier__v1__point__init(point);
		point->value = (double)series->values[i];
		point->timestamp = (int64_t)((set->first_step_ns + i * set->step_ns) / NS_PER_MS);
		message->point_pointers[i] = point;
	}
	message->series.n_points = set->step_count;
	message->series.points = message->point_pointers;
	return 0;
}

static void add_pair(struct series_message *message, const char *name, const char *value)
{
	Querier__V1__LabelPair *pair = &message->pairs[message->series.n_labels];

	querier__v1__label_pair__init(pair);
	pair->name = (char *)name;
	pair->value = (char *)value;
	message->pair_pointers[message->series.n_labels++] = pair;
}

/** With one label a group is its value, else the set has labels. */
static int make_series(struct series_message *message, const struct query_series_set *set,
		       const struct query_series *series, const struct grouping *grouping)
{
	querier__v1__series__init(&message->series);
	message->pairs = calloc(series->labels.count + 1ULL, sizeof(*message->pairs));
	message->pair_pointers =
		calloc(series->labels.count + 1ULL, sizeof(*message->pair_pointers));
	if (!message->pairs || !message->pair_pointers)
		return -ENOMEM;
	if (grouping->count == 1 && *series->group)
		add_pair(message, grouping->theirs, series->group);
	for (uint32_t i = 0; i < series->labels.count; i++)
		add_pair(message, label_map_to_theirs(series->labels.pairs[i].name),
			 series->labels.pairs[i].value);
	message->series.labels = message->pair_pointers;
	return make_points(message, set, series);
}

static int respond_series(const struct querier_call *call, const struct query_series_set *set,
			  const struct grouping *grouping, uint32_t count, struct error *err)
{
	Querier__V1__SelectSeriesResponse response = QUERIER__V1__SELECT_SERIES_RESPONSE__INIT;
	_cleanup_free_ struct series_message *messages = calloc(count + 1ULL, sizeof(*messages));
	_cleanup_free_ Querier__V1__Series **pointers = calloc(count + 1ULL, sizeof(*pointers));
	int rc = messages && pointers ? 0 : -ENOMEM;

	for (uint32_t i = 0; !rc && i < count; i++) {
		rc = make_series(&messages[i], set, &set->series[i], grouping);
		pointers[i] = &messages[i].series;
	}
	response.n_series = count;
	response.series = pointers;
	rc = rc ? error_set(err, rc, "out of memory for series")
		: querier_respond(call, &response.base, err);
	for (uint32_t i = 0; messages && i < count; i++)
		series_message_deinit(&messages[i]);
	return rc;
}

int querier_select_series(const struct querier_call *call, const ProtobufCMessage *message,
			  struct error *err)
{
	const Querier__V1__SelectSeriesRequest *request = (const void *)message;
	_cleanup_(query_series_set_deinit) struct query_series_set set = { 0 };
	struct grouping grouping = { 0 };
	struct querier_query query;
	uint64_t step_ns = 0;

	if (request->stack_trace_selector && request->stack_trace_selector->n_call_site)
		return error_set(err, -ENOSYS, "stack_trace_selector: only of flame graphs");
	int rc = querier_query_init(&query, call, request->profile_typeid, request->label_selector,
				    request->start, request->end, err);
	if (!rc)
		rc = read_step(request->step, &step_ns, err);
	if (!rc)
		rc = read_grouping(request->group_by, request->n_group_by, &grouping, err);
	if (!rc) {
		query.query.group_by = grouping.count ? buffer_string(&grouping.ours) : NULL;
		rc = query_series(&query.query, step_ns, &set, err);
	}
	if (!rc)
		rc = respond_series(call, &set, &grouping,
				    request->limit > 0 && request->limit < set.count
					    ? (uint32_t)request->limit
					    : set.count,
				    err);
	buffer_deinit(&grouping.ours);
	querier_query_deinit(&query);
	return rc;
}

// ---- heat map -------------------------------------------------------------------------------

/** Each slot counts the seconds whose values are in each of the rows, from 0 to the largest value. */
static void count_seconds(const struct heat_map *map, uint64_t step_ns, uint64_t first_ns,
			  uint32_t slot_count, int32_t *counts)
{
	for (uint32_t i = 0; i < map->slot_count; i++) {
		uint64_t slot = (map->from_ns + i * map->slot_ns - first_ns) / step_ns;
		uint32_t row;

		if (map->values[i] <= 0 || slot >= slot_count)
			continue;
		row = (uint32_t)((double)map->values[i] / (double)map->value_max *
				 QUERIER_HEAT_MAP_ROWS);
		counts[slot * QUERIER_HEAT_MAP_ROWS +
		       (row < QUERIER_HEAT_MAP_ROWS ? row : QUERIER_HEAT_MAP_ROWS - 1)]++;
	}
}

static int respond_heat_map(const struct querier_call *call, const struct heat_map *map,
			    uint64_t step_ns, struct error *err)
{
	Querier__V1__SelectHeatmapResponse response = QUERIER__V1__SELECT_HEATMAP_RESPONSE__INIT;
	Querier__V1__HeatmapSeries series = QUERIER__V1__HEATMAP_SERIES__INIT, *one = &series;
	uint64_t first_ns = map->from_ns / step_ns * step_ns;
	uint64_t to_ns = map->from_ns + map->slot_count * map->slot_ns;
	uint32_t count = (uint32_t)((to_ns - first_ns + step_ns - 1) / step_ns);
	_cleanup_free_ int32_t *counts = calloc((count + 1ULL) * QUERIER_HEAT_MAP_ROWS, 4);
	_cleanup_free_ Querier__V1__HeatmapSlot *slots = calloc(count + 1ULL, sizeof(*slots));
	_cleanup_free_ Querier__V1__HeatmapSlot **pointers =
		calloc(count + 1ULL, sizeof(*pointers));
	double y_min[QUERIER_HEAT_MAP_ROWS];

	if (!counts || !slots || !pointers)
		return error_set(err, -ENOMEM, "out of memory for the heat map");
	for (int row = 0; row < QUERIER_HEAT_MAP_ROWS; row++)
		y_min[row] = (double)map->value_max * row / QUERIER_HEAT_MAP_ROWS;
	count_seconds(map, step_ns, first_ns, count, counts);
	for (uint32_t i = 0; i < count; i++) {
		querier__v1__heatmap_slot__init(&slots[i]);
		slots[i].timestamp =
			(int64_t)((first_ns + (i + 1) * step_ns) / NS_PER_MS); // its end
		slots[i].n_y_min = slots[i].n_counts = QUERIER_HEAT_MAP_ROWS;
		slots[i].y_min = y_min;
		slots[i].counts = &counts[i * (size_t)QUERIER_HEAT_MAP_ROWS];
		pointers[i] = &slots[i];
	}
	series.n_slots = count;
	series.slots = pointers;
	response.n_series = map->value_max > 0;
	response.series = &one;
	return querier_respond(call, &response.base, err);
}

int querier_heat_map(const struct querier_call *call, const ProtobufCMessage *message,
		     struct error *err)
{
	const Querier__V1__SelectHeatmapRequest *request = (const void *)message;
	_cleanup_(heat_map_deinit) struct heat_map map = { 0 };
	struct querier_query query;
	uint64_t step_ns = 0, second_ns = NS_PER_SECOND;
	int rc = querier_query_init(&query, call, request->profile_typeid, request->label_selector,
				    request->start, request->end, err);

	if (!rc)
		rc = read_step(request->step, &step_ns, err);
	if (!rc) {
		uint64_t range_ns = query.query.range.to_ns - query.query.range.from_ns;

		// Whole seconds, and few enough of them.
		step_ns = (step_ns + NS_PER_SECOND - 1) / NS_PER_SECOND * NS_PER_SECOND;
		while (range_ns / step_ns >= QUERIER_HEAT_MAP_SLOTS_MAX)
			step_ns *= 2;
		// In weeks there are more seconds than a heat map has.
		while (range_ns / second_ns >= QUERY_SLOTS_MAX - 1)
			second_ns *= 2;
		rc = query_heat_map(&query.query, second_ns, 0, &map, err);
	}
	if (!rc)
		rc = respond_heat_map(call, &map, step_ns, err);
	querier_query_deinit(&query);
	return rc;
}
