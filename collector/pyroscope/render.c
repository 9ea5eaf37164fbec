// SPDX-License-Identifier: Apache-2.0
// github.com/grafana/pyroscope: pkg/querier/http.go, pkg/og/structs/flamebearer, pkg/querier/timeline.
#include "collector/pyroscope/render.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config_quantity.h"
#include "base/json_text.h"
#include "base/saturating.h"
#include "collector/pyroscope/flame_graph.h"

enum {
	TIMELINE_STEP_S_MIN = 15, // as Pyroscope's
	TIMELINE_POINTS = 1000,
	CPU_SAMPLE_RATE = 1000000000,
	OTHER_SAMPLE_RATE = 100,
};

/** The words that a side's parameters begin with: "left" and "From" are "leftFrom". */
struct side {
	const char *query, *from, *until;
};

static const struct side single = { "query", "from", "until" };
static const struct side left = { "leftQuery", "leftFrom", "leftUntil" };
static const struct side right = { "rightQuery", "rightFrom", "rightUntil" };

struct render_request {
	char type[PROFILE_TYPE_BYTES];
	Querier__V1__SelectMergeStacktracesRequest merge; // refers to the parameters
};

/** Milliseconds of seconds, milliseconds, or a time as our API has it. */
static int read_time(const char *text, const char *preset, uint64_t now_ns, int64_t *ret_ms,
		     struct error *err)
{
	size_t digits = strspn(text, "0123456789");
	uint64_t ns;

	if (digits >= 12 && digits <= 18 && !text[digits]) {
		uint64_t number = strtoull(text, NULL, 10);

		// 13 digits are milliseconds, 16 microseconds.
		*ret_ms = (int64_t)(digits >= 15 ? number / 1000 : number);
		return 0;
	}
	int rc = time_parse(*text ? text : preset, now_ns, &ns, err);
	if (!rc)
		*ret_ms = (int64_t)(ns / NS_PER_MS);
	return rc;
}

/** "type{selector}" */
static int read_query(const char *text, const char *name, struct render_request *request,
		      struct error *err)
{
	size_t size = strcspn(text, "{");

	if (!*text)
		return error_set(err, -EINVAL,
				 "%s: is missing; expected a profile type and a selector", name);
	if (size >= sizeof(request->type))
		return error_set(err, -EINVAL, "%s: the profile type is too long", name);
	memcpy(request->type, text, size);
	request->type[size] = '\0';
	request->merge.profile_typeid = request->type;
	request->merge.label_selector = (char *)(text[size] ? text + size : "{}");
	return 0;
}

static int read_request(const struct querier_call *call, render_parameter_fn parameter,
			const void *context, const struct side *side,
			struct render_request *request, struct error *err)
{
	const char *nodes = parameter(context, "maxNodes");

	querier__v1__select_merge_stacktraces_request__init(&request->merge);
	int rc = read_query(parameter(context, side->query), side->query, request, err);
	if (!rc)
		rc = read_time(parameter(context, side->from), "now-1h", call->now_ns,
			       &request->merge.start, err);
	if (!rc)
		rc = read_time(parameter(context, side->until), "now", call->now_ns,
			       &request->merge.end, err);
	nodes = *nodes ? nodes : parameter(context, "max-nodes");
	request->merge.max_nodes = strtoll(nodes, NULL, 10);
	return rc;
}

// ---- writing --------------------------------------------------------------------------------

static void append_member(struct buffer *buffer, const char *name, int64_t value)
{
	buffer_append_string(buffer, ",\"");
	buffer_append_string(buffer, name);
	buffer_append_string(buffer, "\":");
	json_append_int(buffer, value);
}

static void append_flamebearer(struct buffer *buffer, const struct flamebearer *bearer,
			       int64_t ticks)
{
	buffer_append_string(buffer, "{\"version\":1,\"flamebearer\":{\"names\":[");
	for (uint32_t i = 0; i < bearer->name_count; i++) {
		if (i)
			buffer_append_byte(buffer, ',');
		json_append_string(buffer, bearer->names[i]);
	}
	buffer_append_string(buffer, "],\"levels\":[");
	for (uint32_t i = 0; i < bearer->level_count; i++) {
		if (i)
			buffer_append_byte(buffer, ',');
		json_append_ints(buffer, bearer->levels[i].values, bearer->levels[i].count);
	}
	buffer_append_byte(buffer, ']');
	append_member(buffer, "numTicks", ticks);
	append_member(buffer, "maxSelf", bearer->max_self);
	buffer_append_byte(buffer, '}');
}

/** Time on a CPU is in "samples" of a nanosecond, all else in its unit. */
static void append_metadata(struct buffer *buffer, const char *type, const char *format)
{
	struct profile_type parts = { 0 };

	profile_type_parse(type, &parts, NULL);
	bool is_cpu = strcmp(parts.sample_type, "cpu") == 0;
	buffer_append_string(buffer, ",\"metadata\":{\"format\":");
	json_append_string(buffer, format);
	buffer_append_string(buffer, ",\"spyName\":\"cairn\",\"sampleRate\":");
	json_append_int(buffer, is_cpu ? CPU_SAMPLE_RATE : OTHER_SAMPLE_RATE);
	buffer_append_string(buffer, ",\"units\":");
	json_append_string(buffer, is_cpu ? "samples" : parts.sample_unit);
	buffer_append_string(buffer, ",\"name\":");
	json_append_string(buffer, parts.sample_type);
	buffer_append_byte(buffer, '}');
}

static void append_timeline(struct buffer *buffer, const struct query_series_set *set,
			    const struct query_series *series)
{
	buffer_append_string(buffer, "{\"startTime\":");
	json_append_uint(buffer, set->first_step_ns / NS_PER_SECOND);
	buffer_append_string(buffer, ",\"samples\":");
	json_append_ints(buffer, series ? series->values : NULL, series ? set->step_count : 0);
	append_member(buffer, "durationDelta", (int64_t)(set->step_ns / NS_PER_SECOND));
	buffer_append_string(buffer, ",\"watermarks\":{}}");
}

static void append_groups(struct buffer *buffer, const struct query_series_set *set)
{
	buffer_append_string(buffer, ",\"groups\":{");
	for (uint32_t i = 0; i < set->count; i++) {
		if (i)
			buffer_append_byte(buffer, ',');
		json_append_string(buffer, *set->series[i].group ? set->series[i].group : "*");
		buffer_append_byte(buffer, ':');
		append_timeline(buffer, set, &set->series[i]);
	}
	buffer_append_byte(buffer, '}');
}

/** The sum over time and, if @group_by is not "", that of each of its values. */
static int append_timelines(const struct querier_call *call, const struct render_request *request,
			    const char *group_by, struct error *err)
{
	_cleanup_(query_series_set_deinit) struct query_series_set set = { 0 }, groups = { 0 };
	struct querier_query query;
	int rc = querier_query_init(&query, call, request->type, request->merge.label_selector,
				    request->merge.start, request->merge.end, err);
	uint64_t seconds = 0;

	if (!rc) {
		seconds = (query.query.range.to_ns - query.query.range.from_ns) / NS_PER_SECOND /
			  TIMELINE_POINTS;
		seconds = seconds < TIMELINE_STEP_S_MIN ? TIMELINE_STEP_S_MIN : seconds;
		rc = query_series(&query.query, seconds * NS_PER_SECOND, &set, err);
	}
	if (!rc && *group_by) {
		query.query.group_by = label_map_to_ours(group_by);
		rc = query_series(&query.query, seconds * NS_PER_SECOND, &groups, err);
	}
	querier_query_deinit(&query);
	if (rc)
		return rc;
	buffer_append_string(call->answer, ",\"timeline\":");
	append_timeline(call->answer, &set, set.count ? &set.series[0] : NULL);
	if (*group_by)
		append_groups(call->answer, &groups);
	else
		buffer_append_string(call->answer, ",\"groups\":null");
	return 0;
}

int pyroscope_render(const struct querier_call *call, render_parameter_fn parameter,
		     const void *context, struct error *err)
{
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
	struct render_request request;
	int rc = read_request(call, parameter, context, &single, &request, err);

	if (!rc && strcmp(parameter(context, "format"), "dot") == 0)
		rc = error_set(err, -ENOSYS, "format: only json is given, not DOT");
	if (!rc)
		rc = pyroscope_flame_graph(call, &request.merge, &bearer, err);
	if (rc)
		return rc;
	append_flamebearer(call->answer, &bearer, bearer.totals[0]);
	append_metadata(call->answer, request.type, "single");
	rc = append_timelines(call, &request, parameter(context, "groupBy"), err);
	buffer_append_string(call->answer, ",\"heatmap\":null,\"leftTicks\":0,\"rightTicks\":0}\n");
	return rc;
}

int pyroscope_render_diff(const struct querier_call *call, render_parameter_fn parameter,
			  const void *context, struct error *err)
{
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
	struct render_request sides[FLAMEBEARER_SIDES];
	int rc = read_request(call, parameter, context, &left, &sides[0], err);

	if (!rc)
		rc = read_request(call, parameter, context, &right, &sides[1], err);
	if (!rc && strcmp(sides[0].type, sides[1].type) != 0)
		rc = error_set(err, -EINVAL, "leftQuery, rightQuery: profile types differ");
	if (!rc)
		rc = pyroscope_flame_graph_diff(call, &sides[0].merge, &sides[1].merge, &bearer,
						err);
	if (rc)
		return rc;
	append_flamebearer(call->answer, &bearer,
			   add_saturating(bearer.totals[0], bearer.totals[1]));
	append_metadata(call->answer, sides[0].type, "double");
	buffer_append_string(call->answer, ",\"timeline\":null,\"groups\":null,\"heatmap\":null");
	append_member(call->answer, "leftTicks", bearer.totals[0]);
	append_member(call->answer, "rightTicks", bearer.totals[1]);
	buffer_append_string(call->answer, "}\n");
	return 0;
}
