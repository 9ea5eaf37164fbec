// SPDX-License-Identifier: Apache-2.0
// Answers with a service's bottleneck: the verdict, its figures, and the stacks that show it.
#include "collector/http/http_handlers.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "collector/diagnose/diagnosis.h"
#include "base/json_text.h"
#include "collector/http/spike_json.h"
#include "collector/spikes/spikes.h"

enum { CHANGED_MAX = 3 }; // spikes that a verdict names

// Shares have three digits: a tenth of a percent.
static void append_share(struct buffer *body, const char *key, double share)
{
	buffer_printf(body, ",\"%s\":%.3f", key, share);
}

static void append_count(struct buffer *body, const char *key, int64_t value)
{
	buffer_printf(body, ",\"%s\":%lld", key, (long long)value);
}

// The first of an object's members has no comma before it.
static void append_text(struct buffer *body, const char *key, const char *text)
{
	bool is_first = body->size && body->bytes[body->size - 1] == '{';

	buffer_printf(body, is_first ? "\"%s\":" : ",\"%s\":", key);
	json_append_string(body, text);
}

static void append_texts(struct buffer *body, const char *key, const char *const *texts)
{
	buffer_printf(body, ",\"%s\":[", key);
	for (int i = 0; texts[i]; i++) {
		if (i)
			buffer_append_byte(body, ',');
		json_append_string(body, texts[i]);
	}
	buffer_append_byte(body, ']');
}

static void append_flag(struct buffer *body, const char *key, bool flag)
{
	buffer_printf(body, ",\"%s\":%s", key, flag ? "true" : "false");
}

static void append_shares(struct buffer *body, const struct verdict *verdict)
{
	buffer_append_string(body, ",\"shares\":[");
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		buffer_append_string(body, i ? ",{" : "{");
		append_text(body, "class", verdict_class_name(verdict->shares[i].class));
		append_text(body, "title", verdict_class_title(verdict->shares[i].class));
		append_share(body, "share", verdict->shares[i].share);
		append_share(body, "threshold", verdict->shares[i].threshold);
		append_flag(body, "reached", i < verdict->passed_count);
		buffer_append_byte(body, '}');
	}
	buffer_append_byte(body, ']');
}

static void append_figures(struct buffer *body, const struct diagnosis *diagnosis)
{
	const struct verdict_figures *figures = &diagnosis->figures;

	buffer_printf(body, ",\"figures\":{\"range_ns\":%llu",
		      (unsigned long long)figures->range_ns);
	buffer_append_string(body, figures->has_wall_clock ? ",\"has_wall_clock\":true"
							   : ",\"has_wall_clock\":false");
	append_count(body, "active_ns", diagnosis->verdict.active_ns);
	append_count(body, "running_ns", figures->running_ns);
	append_count(body, "queued_ns", figures->queued_ns);
	append_count(body, "throttled_ns", figures->throttled_ns);
	buffer_append_string(body, ",\"wait_ns\":{");
	for (int i = 0; i < WAIT_CLASS_COUNT; i++)
		buffer_printf(body, "%s\"%s\":%lld", i ? "," : "",
			      wait_class_name((enum wait_class)i), (long long)figures->wait_ns[i]);
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

static void append_evidence(struct buffer *body, const struct diagnosis *diagnosis,
			    const struct diagnosis_evidence *evidence)
{
	buffer_append_byte(body, '{');
	if (evidence->what)
		append_text(body, "what", evidence->what);
	append_text(body, "type", evidence->type);
	if (evidence->wait)
		append_text(body, "wait", evidence->wait);
	if (evidence->finding[0])
		append_text(body, "finding", evidence->finding);
	buffer_append_string(body, ",\"stacks\":[");
	for (uint32_t i = 0; i < evidence->stack_count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_stack(body, diagnosis, &evidence->stacks[i]);
	}
	buffer_append_string(body, "]}");
}

static void append_all_evidence(struct buffer *body, const struct diagnosis *diagnosis)
{
	if (!diagnosis->evidence_count)
		return;
	buffer_append_string(body, ",\"evidence\":");
	append_evidence(body, diagnosis, &diagnosis->evidence[0]);
	if (diagnosis->evidence_count == 1)
		return;
	buffer_append_string(body, ",\"more_evidence\":[");
	for (uint32_t i = 1; i < diagnosis->evidence_count; i++) {
		if (i > 1)
			buffer_append_byte(body, ',');
		append_evidence(body, diagnosis, &diagnosis->evidence[i]);
	}
	buffer_append_byte(body, ']');
}

// ---- the GPU --------------------------------------------------------------------------------

static void append_gpu_shares(struct buffer *body, const struct gpu_verdict *verdict)
{
	buffer_append_string(body, ",\"shares\":[");
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		const struct gpu_share *share = &verdict->shares[i];

		buffer_append_string(body, i ? ",{" : "{");
		append_text(body, "class", gpu_class_name(share->class));
		append_text(body, "title", gpu_class_title(share->class));
		append_share(body, "share", share->share);
		append_share(body, "threshold", share->threshold);
		append_flag(body, "reached", share->reached);
		append_flag(body, "judged", share->judged);
		buffer_append_byte(body, '}');
	}
	buffer_append_byte(body, ']');
}

// Those of @figures that are @known, or that are not and would be missed.
static void append_gpu_figures(struct buffer *body, const char *key,
			       const struct gpu_figures *figures, uint32_t which, bool known)
{
	bool any = false;

	buffer_printf(body, ",\"%s\":[", key);
	for (int i = 0; i < GPU_FIGURE_COUNT; i++) {
		enum gpu_figure figure = (enum gpu_figure)i;

		if (!(which & 1U << i))
			continue;
		buffer_append_string(body, any ? ",{" : "{");
		any = true;
		append_text(body, "name", gpu_figure_name(figure));
		append_text(body, "title", gpu_figure_title(figure));
		append_text(body, "unit", gpu_unit_name(gpu_figure_unit(figure)));
		if (known)
			append_share(body, "value", figures->values[i]);
		else
			append_text(body, "source", gpu_figure_source(figure));
		buffer_append_byte(body, '}');
	}
	buffer_append_byte(body, ']');
}

// The rank that others of its node wait for.
static void append_late(struct buffer *body, const struct gpu_diagnosis *gpu)
{
	if (!gpu->late_communicator[0])
		return;
	buffer_append_string(body, ",\"late\":{");
	append_text(body, "communicator", gpu->late_communicator);
	append_text(body, "rank", gpu->late_rank);
	append_text(body, "node", gpu->late_node);
	buffer_append_byte(body, '}');
}

static void append_gpu(struct buffer *body, const struct gpu_diagnosis *gpu)
{
	if (!gpu->figures.in_use)
		return;
	buffer_append_string(body, ",\"gpu\":{");
	append_text(body, "class", gpu_class_name(gpu->verdict.class));
	append_text(body, "title", gpu_class_title(gpu->verdict.class));
	append_text(body, "confidence", verdict_confidence_name(gpu->verdict.confidence));
	append_flag(body, "intermittent", gpu->verdict.is_intermittent);
	append_late(body, gpu);
	append_gpu_shares(body, &gpu->verdict);
	append_gpu_figures(body, "figures", &gpu->figures, gpu->figures.known, true);
	append_gpu_figures(body, "unknown", &gpu->figures, gpu->verdict.missing, false);
	append_texts(body, "advice", gpu_class_advice(gpu->verdict.class));
	buffer_append_byte(body, '}');
}

static bool is_of_one_service(const struct selector *selector)
{
	for (uint32_t i = 0; i < selector->count; i++)
		if (strcmp(selector->matchers[i].name, LABEL_SERVICE) == 0 &&
		    selector->matchers[i].op == MATCH_EQUAL)
			return true;
	return false;
}

/*
 * What left its usual range meanwhile: figures of the range alone do not tell a cause from what is always so. Where it cannot be
 * found within the request's limits, the verdict stands without it, and the answer says why. Not of a whole fleet, where it takes longer than the verdict.
 */
static void append_changed(struct buffer *body, const struct query *query)
{
	_cleanup_(spikes_deinit) struct spikes spikes = { 0 };
	const struct spikes_options options = { .min_s = SPIKES_MIN_S_DEFAULT,
						.limit = CHANGED_MAX };
	struct error err = { 0 };

	if (!is_of_one_service(query->selector))
		return;
	if (query_spikes(query, &options, &spikes, &err)) {
		append_text(body, "changed_unknown", err.text);
		return;
	}
	buffer_append_string(body, ",\"changed\":[");
	for (uint32_t i = 0; i < spikes.count; i++) {
		buffer_append_string(body, i ? ",{" : "{");
		spike_json_append_words(body, &spikes.items[i]);
		buffer_append_byte(body, '}');
	}
	buffer_append_byte(body, ']');
}

void http_handle_diagnose(struct http_api *api, const struct api_request *request,
			  struct http_response *response)
{
	_cleanup_(diagnosis_deinit) struct diagnosis diagnosis = { 0 };
	const struct query query = api_query(api, request);
	const char *advice[DIAGNOSIS_ADVICE_MAX + 1];
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (query_diagnosis(&query, &diagnosis, &err)) {
		http_respond_failure(response, &err, "query");
		return;
	}
	buffer_append_byte(body, '{');
	append_text(body, "class", diagnosis_class_name(&diagnosis));
	append_text(body, "title", diagnosis_title(&diagnosis));
	append_text(body, "confidence", verdict_confidence_name(diagnosis_confidence(&diagnosis)));
	append_shares(body, &diagnosis.verdict);
	append_figures(body, &diagnosis);
	append_gpu(body, &diagnosis.gpu);
	append_all_evidence(body, &diagnosis);
	diagnosis_advice(&diagnosis, advice);
	append_texts(body, "advice", advice);
	append_changed(body, &query);
	buffer_append_string(body, "}\n");
}
