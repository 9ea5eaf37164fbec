// SPDX-License-Identifier: Apache-2.0
// Answers with what threads did over time. A value is nanoseconds in a slot; equal ones are a run.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_text.h"

enum { SLOTS_DEFAULT = 1500 }; // about a screen's width

/** The slot asked for; otherwise a stored one's, or so many that there are at most SLOTS_DEFAULT. */
static uint64_t slot_of(const struct api_request *request)
{
	const uint64_t stored_ns = 20 * NS_PER_MS;
	uint64_t slots = (request->range.to_ns - request->range.from_ns) / stored_ns;

	if (*http_parameter(request->http, "slot"))
		return request->slot_ns;
	return stored_ns * (1 + slots / SLOTS_DEFAULT);
}

/** Append runs of equal values as slots of 0 before it, its slots, its value, one run after the other. */
static void append_runs(struct buffer *body, const int64_t *values, uint32_t count)
{
	uint32_t end = 0; // of the last run

	buffer_append_string(body, ",\"runs\":[");
	for (uint32_t at = 0, next; at < count; at = next) {
		for (next = at + 1; next < count && values[next] == values[at];)
			next++;
		if (!values[at])
			continue;
		if (end)
			buffer_append_byte(body, ',');
		json_append_uint(body, at - end);
		buffer_append_byte(body, ',');
		json_append_uint(body, next - at);
		buffer_append_byte(body, ',');
		json_append_int(body, values[at]);
		end = next;
	}
	buffer_append_byte(body, ']');
}

static void append_part(struct buffer *body, const struct thread_part *part, uint32_t slot_count)
{
	buffer_append_string(body, "{\"type\":");
	json_append_string(body, part->type);
	if (*part->wait) {
		buffer_append_string(body, ",\"wait\":");
		json_append_string(body, part->wait);
	}
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, part->total);
	append_runs(body, part->values, slot_count);
	buffer_append_byte(body, '}');
}

static void append_thread(struct buffer *body, const struct timeline_thread *thread,
			  uint32_t slot_count)
{
	buffer_append_string(body, "{\"labels\":");
	api_append_labels(body, &thread->labels);
	buffer_append_string(body, ",\"active\":");
	json_append_int(body, thread->active);
	buffer_append_string(body, ",\"parts\":[");
	for (uint32_t i = 0; i < thread->part_count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_part(body, &thread->parts[i], slot_count);
	}
	buffer_append_string(body, "]}");
}

void http_handle_timeline(struct http_api *api, const struct api_request *request,
			  struct http_response *response)
{
	_cleanup_(thread_timeline_deinit) struct thread_timeline timeline = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (request->limit > QUERY_THREADS_MAX) {
		error_set(&err, -EINVAL, "at most %d threads are shown", QUERY_THREADS_MAX);
		http_respond_failure(response, &err, "limit");
		return;
	}
	if (query_threads(&query, slot_of(request), request->limit, &timeline, &err)) {
		http_respond_failure(response, &err, err.code == -EINVAL ? "slot" : "query");
		return;
	}
	buffer_printf(body,
		      "{\"from_ns\":%llu,\"slot_ns\":%llu,\"slot_count\":%u,\"left_out\":%u,"
		      "\"left_out_active\":%lld,\"threads\":[",
		      (unsigned long long)timeline.from_ns, (unsigned long long)timeline.slot_ns,
		      timeline.slot_count, timeline.left_out, (long long)timeline.left_out_active);
	for (uint32_t i = 0; i < timeline.thread_count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_thread(body, &timeline.threads[i], timeline.slot_count);
	}
	buffer_append_string(body, "]}\n");
}
