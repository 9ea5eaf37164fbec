// SPDX-License-Identifier: Apache-2.0
// Prints the declarations of base/contract/, and of all counters, as JSON: what the page, the API's
// description, the docs and the tests are made of (generate/render).

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/counters.h"
#include "base/buffer.h"
#include "base/contract/frame_kinds.h"
#include "base/contract/knobs.h"
#include "base/contract/label_names.h"
#include "base/contract/label_values.h"
#include "base/contract/profile_types.h"
#include "base/contract/stack_ends.h"
#include "base/contract/thread_states.h"
#include "base/contract/wait_classes.h"
#include "bpf/bpf_counters.h"
#include "collector/limits/tenant_limits.h"
#include "collector/metrics/metrics.h"

static bool is_first; // of the object or array that is open

static void put_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

/* Begin a member or, without @key, an item. */
static void begin(const char *key)
{
	printf("%s\n", is_first ? "" : ",");
	is_first = false;
	if (!key)
		return;
	put_text(key);
	putchar(':');
}

static void open_with(const char *key, char bracket)
{
	begin(key);
	putchar(bracket);
	is_first = true;
}

static void close_with(char bracket)
{
	putchar(bracket);
	is_first = false;
}

/* NULL: there is no such member. */
static void put(const char *key, const char *text)
{
	if (!text)
		return;
	begin(key);
	put_text(text);
}

/** @texts ends with NULL. */
static void put_list(const char *key, const char *const *texts)
{
	open_with(key, '[');
	for (; *texts; texts++)
		put(NULL, *texts);
	close_with(']');
}

static void put_reduced_by(const struct profile_type_spec *spec)
{
	open_with("reducedBy", '[');
	for (uint32_t i = 0; i < spec->reduced_by_count; i++)
		put(NULL, knob_spec(spec->reduced_by[i])->token);
	// What the agent says of itself goes on.
	if (spec->section != PROFILE_SECTION_PROFILER)
		put(NULL, knob_spec(KNOB_SAMPLING)->token);
	close_with(']');
}

static void put_profile_types(void)
{
	uint32_t count;
	const struct profile_type_spec *specs = profile_type_specs(&count);

	open_with("sections", '[');
	for (int i = 0; i < PROFILE_SECTION_COUNT; i++)
		put(NULL, profile_section_title((enum profile_section)i));
	close_with(']');
	open_with("profileTypes", '[');
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_type_spec *spec = &specs[i];

		open_with(NULL, '{');
		put("id", spec->id);
		put("type", spec->type);
		put("word", spec->word);
		put("title", spec->title);
		put("section", profile_section_title(spec->section));
		put("meaning", spec->meaning);
		put("rate", spec->rate);
		put("groupBy", spec->group_by);
		put_list("labels", spec->labels);
		put_reduced_by(spec);
		put("noStacks", spec->no_stacks);
		put_list("see", spec->see);
		close_with('}');
	}
	close_with(']');
}

static void put_value(const char *value, const char *title, const char *meaning)
{
	open_with(value, '{');
	put("title", title);
	put("meaning", meaning);
	close_with('}');
}

static const char *token_of(const char *name, char token[64])
{
	size_t i = 0;

	for (; name[i] && i < 63; i++)
		token[i] = (char)tolower((unsigned char)name[i]);
	token[i] = '\0';
	return token;
}

/* @loss: as in bpf/bpf_counters.h; "OTHER" is LOSS_OF(OTHER). */
static void put_counter(const char *name, const char *loss, const char *sentence)
{
	char token[64], title[128];

	snprintf(title, sizeof(title), "%.*s", (int)strcspn(sentence, "."), sentence);
	open_with(token_of(name, token), '{');
	put("title", title);
	put("meaning", sentence);
	put("loss", loss ? token_of(loss, token) : NULL);
	close_with('}');
}

#define NO_LOSS        NULL
#define WARNING        NULL
#define LOSS           ""
#define LOSS_WITH_LINE ""
#define LOSS_OF(other) #other

static void put_kernel_counters(void)
{
#define X(name, loss, sentence) put_counter(#name, loss, sentence);
	BPF_COUNTERS(X)
#undef X
}

static void put_agent_counters(void)
{
#define X(name, figure, loss, sentence) put_counter(#name, loss, sentence);
	AGENT_COUNTERS(X)
#undef X
}

static void put_label_values(void)
{
	uint32_t count;
	const struct label_value_spec *values = label_value_specs(&count);

	open_with("labelValues", '{');
	open_with(LABEL_STATE, '{');
	for (int i = 0; i < THREAD_STATE_COUNT; i++)
		put_value(thread_states[i].token, thread_states[i].title, thread_states[i].meaning);
	close_with('}');
	open_with(LABEL_WAIT, '{');
	for (int i = 0; i < WAIT_CLASS_COUNT; i++) {
		const struct wait_class_spec *class = wait_class_spec((enum wait_class)i);

		put_value(class->token, class->title, class->meaning);
	}
	close_with('}');
	open_with(LABEL_KNOB, '{');
	for (int i = 0; i < KNOB_COUNT; i++) {
		const struct knob_spec *knob = knob_spec((enum knob)i);

		put_value(knob->token, knob->title, knob->meaning);
	}
	close_with('}');
	open_with(LABEL_COUNTER, '{');
	put_kernel_counters();
	put_agent_counters();
	close_with('}');
	// The rows of a label are next to each other.
	for (uint32_t i = 0; i < count; i++) {
		if (!i || strcmp(values[i - 1].label, values[i].label) != 0)
			open_with(values[i].label, '{');
		put_value(values[i].value, values[i].title, values[i].meaning);
		if (i == count - 1 || strcmp(values[i + 1].label, values[i].label) != 0)
			close_with('}');
	}
	close_with('}');
}

static void put_knobs(void)
{
	open_with("knobs", '{');
	for (int i = 0; i < KNOB_COUNT; i++) {
		const struct knob_spec *knob = knob_spec((enum knob)i);

		open_with(knob->token, '{');
		put("sentence", knob->sentence);
		put("steps", knob->steps);
		close_with('}');
	}
	close_with('}');
}

static void put_labels(void)
{
	uint32_t count;
	const struct label_spec *labels = label_specs(&count);

	open_with("labels", '{');
	for (uint32_t i = 0; i < count; i++)
		put(labels[i].name, labels[i].meaning);
	close_with('}');
}

static void put_stacks(void)
{
	open_with("frameKinds", '[');
	for (int i = 0; i < FRAME_KIND_COUNT; i++)
		put(NULL, frame_kind_name((enum frame_kind)i));
	close_with(']');
	open_with("stackEnds", '{');
	for (int i = 0; i < STACK_END_COUNT; i++) {
		const struct stack_end_spec *end = stack_end_spec((enum stack_end)i);

		put_value(end->token, end->title, end->meaning);
	}
	close_with('}');
}

/* What /metrics describes: "# HELP NAME SENTENCE" and "# TYPE NAME TYPE". */
static void put_collector_metrics(char *text)
{
	const char *sentence = "";

	open_with("collectorMetrics", '[');
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *name = strlen(line) > 7 ? line + 7 : "", *rest = strchr(name, ' ');

		if (!rest || strncmp(line, "# ", 2) != 0)
			continue;
		*rest++ = '\0';
		if (!strncmp(line, "# HELP ", 7)) {
			sentence = rest;
			continue;
		}
		open_with(NULL, '{');
		put("name", name);
		put("type", rest);
		put("meaning", sentence);
		close_with('}');
	}
	close_with(']');
}

static void put_counters(void)
{
	static struct metrics metrics; // zeroed: ready
	const struct store_stats stats = { 0 };
	struct buffer text = { 0 };

	open_with("counters", '{');
	open_with("kernel", '{');
	put_kernel_counters();
	close_with('}');
	open_with("agent", '{');
	put_agent_counters();
	close_with('}');
	close_with('}');
	metrics_encode(&metrics, &stats, 0, &text);
	tenant_limits_encode(NULL, ACCESS_ALL_TENANTS, &text);
	buffer_append(&text, "", 1);
	put_collector_metrics((char *)text.bytes);
	buffer_deinit(&text);
}

static void put_tenant_limits(void)
{
	open_with("tenantLimits", '[');
	for (int i = 0; i < TENANT_LIMITS; i++) {
		const struct tenant_limit_spec *spec = tenant_limit_spec((enum tenant_limit)i);
		char text[TENANT_LIMIT_TEXT_BYTES];

		open_with(NULL, '{');
		put("name", spec->name);
		put("preset", spec->preset
				      ? tenant_limit_text((enum tenant_limit)i, spec->preset, text)
				      : spec->preset_text);
		put("min", tenant_limit_text((enum tenant_limit)i, spec->min, text));
		put("max", tenant_limit_text((enum tenant_limit)i, spec->max, text));
		put("bounds", spec->bounds);
		put("beyond", spec->beyond);
		close_with('}');
	}
	close_with(']');
}

int main(void)
{
	is_first = true;
	putchar('{');
	put_profile_types();
	put_labels();
	put_label_values();
	put_knobs();
	put_stacks();
	put_counters();
	put_tenant_limits();
	close_with('}');
	putchar('\n');
	return fflush(stdout) == 0 ? 0 : 1;
}
