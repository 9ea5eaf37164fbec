// SPDX-License-Identifier: Apache-2.0
// What holds a service up: the verdict, the figures behind it and the stacks that show it.
#include "collector/http_handlers.h"

#include "base/cleanup.h"
#include "collector/diagnosis.h"
#include "collector/json_text.h"

// JSON's numbers: shares are told to a tenth of a percent.
static void append_share(struct buffer *body, const char *key, double share)
{
	buffer_printf(body, ",\"%s\":%.3f", key, share);
}

static void append_count(struct buffer *body, const char *key, int64_t value)
{
	buffer_printf(body, ",\"%s\":%lld", key, (long long)value);
}

static void append_class(struct buffer *body, enum verdict_class class)
{
	buffer_append_string(body, "\"class\":");
	json_append_string(body, verdict_class_name(class));
	buffer_append_string(body, ",\"title\":");
	json_append_string(body, verdict_class_title(class));
}

static void append_shares(struct buffer *body, const struct verdict *verdict)
{
	buffer_append_string(body, ",\"shares\":[");
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		buffer_append_string(body, i ? ",{" : "{");
		append_class(body, verdict->shares[i].class);
		append_share(body, "share", verdict->shares[i].share);
		append_share(body, "threshold", verdict->shares[i].threshold);
		buffer_append_string(body, i < verdict->passed_count ? ",\"reached\":true}"
								     : ",\"reached\":false}");
	}
	buffer_append_byte(body, ']');
}

static void append_figures(struct buffer *body, const struct diagnosis *diagnosis)
{
	const struct verdict_figures *figures = &diagnosis->figures;

	buffer_printf(body, ",\"figures\":{\"range_ns\":%llu",
		      (unsigned long long)figures->range_ns);
	buffer_append_string(body,
			     figures->has_waits ? ",\"has_waits\":true" : ",\"has_waits\":false");
	append_count(body, "active_ns", diagnosis->verdict.active_ns);
	append_count(body, "running_ns", figures->running_ns);
	append_count(body, "queued_ns", figures->queued_ns);
	append_count(body, "throttled_ns", figures->throttled_ns);
	buffer_append_string(body, ",\"wait_ns\":{");
	for (int i = 0; i < WAIT_FOR_COUNT; i++)
		buffer_printf(body, "%s\"%s\":%lld", i ? "," : "", wait_for_name((enum wait_for)i),
			      (long long)figures->wait_ns[i]);
	buffer_append_string(body, "}}");
}

static void append_stack(struct buffer *body, const struct diagnosis *diagnosis,
			 const struct diagnosis_stack *stack)
{
	buffer_printf(body, "{\"value\":%lld", (long long)stack->value);
	append_share(body, "share", stack->share);
	buffer_append_string(body, stack->cut ? ",\"cut\":true" : ",\"cut\":false");
	buffer_append_string(body, ",\"frames\":[");
	for (uint32_t i = 0; i < stack->frame_count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		json_append_string(body, string_table_get(&diagnosis->strings, stack->frames[i]));
	}
	buffer_append_string(body, "]}");
}

static void append_evidence(struct buffer *body, const struct diagnosis *diagnosis)
{
	if (!diagnosis->type)
		return;
	buffer_append_string(body, ",\"evidence\":{\"type\":");
	json_append_string(body, diagnosis->type);
	if (diagnosis->wait) {
		buffer_append_string(body, ",\"wait\":");
		json_append_string(body, diagnosis->wait);
	}
	buffer_append_string(body, ",\"stacks\":[");
	for (uint32_t i = 0; i < diagnosis->stack_count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_stack(body, diagnosis, &diagnosis->stacks[i]);
	}
	buffer_append_string(body, "]}");
}

static void append_advice(struct buffer *body, enum verdict_class class)
{
	const char *const *advice = verdict_class_advice(class);

	buffer_append_string(body, ",\"advice\":[");
	for (int i = 0; advice[i]; i++) {
		if (i)
			buffer_append_byte(body, ',');
		json_append_string(body, advice[i]);
	}
	buffer_append_byte(body, ']');
}

void http_handle_diagnose(struct http_api *api, const struct api_request *request,
			  struct http_response *response)
{
	_cleanup_(diagnosis_deinit) struct diagnosis diagnosis = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (query_diagnosis(&query, &diagnosis, &err)) {
		http_respond_failure(response, &err, "query");
		return;
	}
	buffer_append_byte(body, '{');
	append_class(body, diagnosis.verdict.class);
	buffer_append_string(body, ",\"confidence\":");
	json_append_string(body, verdict_confidence_name(diagnosis.verdict.confidence));
	append_shares(body, &diagnosis.verdict);
	append_figures(body, &diagnosis);
	append_evidence(body, &diagnosis);
	append_advice(body, diagnosis.verdict.class);
	buffer_append_string(body, "}\n");
}
