// SPDX-License-Identifier: Apache-2.0
#include "cli/shedding_notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/knobs.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/utf8.h"

#define GROUP_BY LABEL_NODE "," LABEL_KNOB "," LABEL_STEP "," LABEL_PID "," LABEL_COMM

enum { STEPS_SHOWN = 3, NODE_BYTES = 80, NOTE_BYTES = 640, MATCHER_BYTES = 256 };

static enum knob knob_of(const char *token)
{
	for (int knob = 0; knob < KNOB_COUNT; knob++)
		if (strcmp(knob_spec((enum knob)knob)->token, token) == 0)
			return (enum knob)knob;
	return KNOB_COUNT;
}

/* False: a later version's knob. */
static bool describe_step(const json_t *labels, char text[KNOB_SENTENCE_BYTES], bool *ret_has_gap)
{
	struct knob_setting setting = {
		.knob = knob_of(json_text_of(labels, LABEL_KNOB)),
		.pid = (uint32_t)strtoul(json_text_of(labels, LABEL_PID), NULL, 10),
	};

	if (setting.knob == KNOB_COUNT)
		return false;
	snprintf(setting.step, sizeof(setting.step), "%s", json_text_of(labels, LABEL_STEP));
	snprintf(setting.comm, sizeof(setting.comm), "%s", json_text_of(labels, LABEL_COMM));
	knob_sentence(&setting, text);
	// Of these a part is kept, and each kept one counts for more.
	*ret_has_gap |= setting.knob != KNOB_OFF_CPU_UNWIND &&
			setting.knob != KNOB_PAGE_FAULTS_UNWIND &&
			setting.knob != KNOB_CPU_FREQUENCY;
	return true;
}

/* The node's steps, those that lasted longest first, as the collector sorts them. "" without any. */
static void describe_node(const json_t *series, const char *node, char note[NOTE_BYTES])
{
	char text[KNOB_SENTENCE_BYTES];
	size_t used = 0, count = 0, i;
	bool has_gap = false;
	const json_t *one;

	*note = '\0';
	json_array_foreach(json_object_get(series, "series"), i, one)
	{
		const json_t *labels = json_object_get(one, "labels");

		if (json_integer_value(json_object_get(one, "total")) <= 0 ||
		    strcmp(json_text_of(labels, LABEL_NODE), node) ||
		    !describe_step(labels, text, &has_gap))
			continue;
		if (count++ < STEPS_SHOWN)
			used += (size_t)snprintf(note + used, NOTE_BYTES - used, "%s%s",
						 used ? ", " : "", text);
	}
	if (count > STEPS_SHOWN)
		used += (size_t)snprintf(note + used, NOTE_BYTES - used, " and %zu more",
					 count - STEPS_SHOWN);
	if (count)
		snprintf(note + used, NOTE_BYTES - used,
			 has_gap ? "; the profile has gaps" : "; sums stay right");
}

json_t *shedding_notes_of(const json_t *series, const json_t *nodes)
{
	json_t *notes = json_array();
	const json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node)
	{
		const char *name = json_is_string(node) ? json_string_value(node) : "";
		char steps[NOTE_BYTES], note[NODE_BYTES + NOTE_BYTES + 64];

		describe_node(series, name, steps);
		if (!*steps)
			continue;
		snprintf(note, sizeof(note), "node %.*s shed load in this range: %s", NODE_BYTES,
			 name, steps);
		utf8_clean(note);
		json_array_append_new(notes, json_string(note));
	}
	return notes;
}

/* {knob=~"a|b"}: the knobs that reduce the type. */
static void match_knobs(const struct profile_type_spec *spec, char matcher[MATCHER_BYTES])
{
	size_t used = (size_t)snprintf(matcher, MATCHER_BYTES, "{" LABEL_KNOB "=~\"");

	for (uint32_t i = 0; i < spec->reduced_by_count && used < MATCHER_BYTES; i++)
		used += (size_t)snprintf(matcher + used, MATCHER_BYTES - used, "%s%s", i ? "|" : "",
					 knob_spec(spec->reduced_by[i])->token);
	if (used < MATCHER_BYTES)
		snprintf(matcher + used, MATCHER_BYTES - used, "\"}");
}

/* For the caller to release; NULL without an answer. */
static json_t *ask(const struct api_request *request, struct buffer *url)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	struct error ignored = { 0 };

	if (api_request_send(request, url, &response, &ignored))
		return NULL;
	return json_loadb((const char *)response.body.bytes, response.body.size, 0, NULL);
}

json_t *shedding_notes_ask(const struct api_request *request, const char *type)
{
	_cleanup_(buffer_deinit) struct buffer nodes_url = { 0 };
	_cleanup_(buffer_deinit) struct buffer series_url = { 0 };
	const struct profile_type_spec *spec = profile_type_spec(type);
	struct api_request of_agents = *request;
	char matcher[MATCHER_BYTES];

	if (!spec || !spec->reduced_by_count)
		return json_array();
	match_knobs(spec, matcher);
	of_agents.selector = matcher;
	api_request_begin_url(&of_agents, "/api/v1/series", &series_url);
	http_append_parameter(&series_url, "type", PROFILE_TYPE_SHEDDING);
	http_append_parameter(&series_url, "group_by", GROUP_BY);
	json_t *series = ask(request, &series_url), *nodes = NULL;

	if (json_array_size(json_object_get(series, "series"))) {
		api_request_begin_url(request, "/api/v1/labels/" LABEL_NODE "/values", &nodes_url);
		nodes = ask(request, &nodes_url);
	}
	json_t *notes = shedding_notes_of(series, json_object_get(nodes, "values"));

	json_decref(series);
	json_decref(nodes);
	return notes;
}
