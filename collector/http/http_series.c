// SPDX-License-Identifier: Apache-2.0
// Answers with values over time: series and the heat map.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"

/** The parameter that a failed query is about: the step if it makes too many points, or @field. */
static const char *field_of(const struct error *err, const char *step, const char *field)
{
	if (err->code == -EINVAL && strstr(err->text, "multiple of peak"))
		return "peak";
	return err->code == -EINVAL && strstr(err->text, " points in this range") ? step : field;
}

static void append_key(struct buffer *body, const char *key, uint64_t value)
{
	buffer_append_string(body, ",\"");
	buffer_append_string(body, key);
	buffer_append_string(body, "\":");
	json_append_uint(body, value);
}

/* Each by itself: values may have any characters in them. */
void api_append_labels(struct buffer *body, const struct labels *labels)
{
	buffer_append_byte(body, '{');
	for (uint32_t i = 0; i < labels->count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		json_append_string(body, labels->pairs[i].name);
		buffer_append_byte(body, ':');
		json_append_string(body, labels->pairs[i].value);
	}
	buffer_append_byte(body, '}');
}

static void append_series(struct buffer *body, const struct query_series *series,
			  uint32_t step_count, bool has_labels)
{
	buffer_append_string(body, "{\"group\":");
	json_append_string(body, series->group);
	if (has_labels) {
		buffer_append_string(body, ",\"labels\":");
		api_append_labels(body, &series->labels);
	}
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, series->total);
	buffer_append_string(body, ",\"values\":");
	json_append_ints(body, series->values, step_count);
	buffer_append_byte(body, '}');
}

void http_handle_series(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_(query_series_set_deinit) struct query_series_set set = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (query_series(&query, request->step_ns, &set, &err)) {
		http_respond_failure(response, &err, field_of(&err, "step", "query"));
		return;
	}
	buffer_append_byte(body, '{');
	api_append_type(body, request);
	append_key(body, "first_step_ns", set.first_step_ns);
	append_key(body, "step_ns", set.step_ns);
	append_key(body, "resolution_ns", set.resolution_ns);
	buffer_append_string(body, ",\"series\":[");
	for (uint32_t i = 0; i < set.count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_series(body, &set.series[i], set.step_count,
			      request->group_by && strchr(request->group_by, ','));
	}
	buffer_append_string(body, "]}\n");
}

void http_handle_heatmap(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	_cleanup_(heat_map_deinit) struct heat_map map = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (query_heat_map(&query, request->slot_ns, request->peak_ns, &map, &err)) {
		http_respond_failure(response, &err,
				     field_of(&err, "slot", api_failed_field(request)));
		return;
	}
	buffer_append_byte(body, '{');
	api_append_type(body, request);
	append_key(body, "from_ns", map.from_ns);
	append_key(body, "slot_ns", map.slot_ns);
	append_key(body, "resolution_ns", map.resolution_ns);
	append_key(body, "value_max", (uint64_t)map.value_max);
	buffer_append_string(body, ",\"values\":");
	json_append_ints(body, map.values, map.slot_count);
	if (map.peaks) {
		append_key(body, "peak_ns", request->peak_ns);
		buffer_append_string(body, ",\"peaks\":");
		json_append_ints(body, map.peaks, map.slot_count);
	}
	buffer_append_string(body, "}\n");
}
