// SPDX-License-Identifier: Apache-2.0
// Answers with the spikes of the selected services, and what explains each.
#include "collector/http/http_handlers.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "collector/http/spike_json.h"
#include "collector/spikes/spikes.h"

static void append_text(struct buffer *body, const char *key, const char *text)
{
	buffer_printf(body, ",\"%s\":", key);
	json_append_string(body, text);
}

static void append_code(struct buffer *body, const struct cause_code *code)
{
	buffer_printf(body, "\"share\":%.3f", code->share);
	append_text(body, "leaf", code->leaf);
	append_text(body, "caller", code->caller);
}

static void append_label(struct buffer *body, const struct cause_label *label)
{
	buffer_append_string(body, "{\"name\":");
	json_append_string(body, label->name);
	buffer_printf(body, ",\"count\":%u,\"of\":%u,\"values\":[", label->count, label->of);
	for (uint32_t i = 0; i < label->count && i < CAUSE_VALUES_MAX; i++) {
		buffer_append_string(body, i ? ",{\"value\":" : "{\"value\":");
		json_append_string(body, label->values[i]);
		buffer_printf(body, ",\"share\":%.3f}", label->shares[i]);
	}
	buffer_append_string(body, "]}");
}

static void append_cause(struct buffer *body, const struct spike_cause *cause)
{
	buffer_append_string(body, ",\"cause\":{");
	append_code(body, &cause->code);
	buffer_append_string(body, ",\"labels\":[");
	for (uint32_t i = 0; i < cause->label_count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_label(body, &cause->labels[i]);
	}
	buffer_append_byte(body, ']');
	if (cause->meanwhile_cores > 0) {
		buffer_append_string(body, ",\"meanwhile\":{");
		append_code(body, &cause->meanwhile);
		buffer_printf(body, ",\"cores\":%.3f", cause->meanwhile_cores);
		append_text(body, "service", cause->meanwhile_service);
		buffer_append_byte(body, '}');
	}
	buffer_append_byte(body, '}');
}

static void append_spike(struct buffer *body, const struct spike *spike)
{
	buffer_append_string(body, "{\"service\":");
	json_append_string(body, spike->service);
	append_text(body, "type", spike->type->type);
	if (spike->type->group_label)
		append_text(body, spike->type->group_label, spike->group);
	buffer_printf(body, ",\"from_ns\":%llu,\"to_ns\":%llu,\"goes_on\":%s",
		      (unsigned long long)spike->interval.from_ns,
		      (unsigned long long)spike->interval.to_ns, spike->goes_on ? "true" : "false");
	buffer_printf(body, ",\"value\":%.0f,\"usual\":%.0f,\"extra\":%.0f", spike->value,
		      spike->usual, spike->extra);
	buffer_printf(body, ",\"surprise\":%.1f,\"score\":%.3f,\"incident\":%u", spike->surprise,
		      spike->score, spike->incident);
	buffer_append_byte(body, ',');
	spike_json_append_words(body, spike);
	if (spike->explained)
		append_cause(body, &spike->cause);
	buffer_append_byte(body, '}');
}

static const char *failed_field(const struct error *err)
{
	return err->code == -EINVAL ? "type" : "query";
}

void http_handle_spikes(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_(spikes_deinit) struct spikes spikes = { 0 };
	const struct query query = api_query(api, request);
	const struct spikes_options options = {
		.type = *http_parameter(request->http, "type") ? request->type : NULL,
		.min_s = (double)request->min_ns / (double)NS_PER_SECOND,
		.limit = *http_parameter(request->http, "limit") ? request->limit
								 : SPIKES_LIMIT_DEFAULT,
	};
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (options.limit > SPIKES_LIMIT_MAX) {
		error_set(&err, -EINVAL, "at most %d spikes are explained", SPIKES_LIMIT_MAX);
		http_respond_failure(response, &err, "limit");
		return;
	}
	if (query_spikes(&query, &options, &spikes, &err)) {
		http_respond_failure(response, &err, failed_field(&err));
		return;
	}
	buffer_printf(body,
		      "{\"from_ns\":%llu,\"to_ns\":%llu,\"history_ns\":%llu,\"slot_ns\":%llu,"
		      "\"found\":%u,\"usual_at_time\":%u,\"not_judged\":%u,\"left_out\":%u",
		      (unsigned long long)spikes.range.from_ns,
		      (unsigned long long)spikes.range.to_ns, (unsigned long long)spikes.history_ns,
		      (unsigned long long)spikes.slot_ns, spikes.found, spikes.usual_at_time,
		      spikes.not_judged, spikes.left_out);
	buffer_append_string(body, ",\"spikes\":[");
	for (uint32_t i = 0; i < spikes.count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_spike(body, &spikes.items[i]);
	}
	buffer_append_string(body, "]}\n");
}
