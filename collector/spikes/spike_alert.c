// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_alert.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "collector/spikes/spike_text.h"

enum { TIME_BYTES = 40 };

/** "2026-11-28T14:02:31.240Z" */
static json_t *time_json(uint64_t ns)
{
	time_t seconds = (time_t)(ns / NS_PER_SECOND);
	char text[TIME_BYTES];
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text) - 8, "%FT%T", &tm))
		return NULL;
	size_t size = strlen(text);

	snprintf(text + size, sizeof(text) - size, ".%03uZ",
		 (unsigned int)(ns % NS_PER_SECOND / NS_PER_MS));
	return json_string(text);
}

static json_t *made_json(const struct spike *spike, const char *before,
			 void (*make)(struct buffer *text, const struct spike *spike))
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	buffer_append_string(&text, before);
	make(&text, spike);
	return text.rc ? NULL : json_string(buffer_string(&text));
}

/** What tells alerts apart: a spike that goes on has the same labels a minute later. */
static json_t *labels_json(const struct spike *spike)
{
	const struct profile_type_spec *spec = profile_type_spec(spike->type->type);
	json_t *labels = json_object();

	json_object_set_new(labels, "alertname", json_string("CairnSpike"));
	json_object_set_new(labels, "severity", json_string("info"));
	json_object_set_new(labels, LABEL_SERVICE, json_string(spike->service));
	json_object_set_new(labels, "type",
			    json_string(spec && spec->word ? spec->word : spike->type->type));
	if (spike->type->group_label)
		json_object_set_new(labels, spike->type->group_label, json_string(spike->group));
	return labels;
}

/** The label of what carries the spike, where it is one value: alerts are routed by it. */
static void add_place(json_t *labels, const struct spike_cause *cause)
{
	for (uint32_t i = 0; i < cause->label_count; i++) {
		if (cause->labels[i].count == 1)
			json_object_set_new(labels, cause->labels[i].name,
					    json_string(cause->labels[i].values[0]));
	}
}

static json_t *alert_json(const struct spike *spike, const char *page_url, uint64_t now_ns)
{
	json_t *alert = json_object(), *labels = labels_json(spike), *annotations = json_object();

	add_place(labels, &spike->cause);
	json_object_set_new(annotations, "summary", made_json(spike, "", spike_append_title));
	json_object_set_new(annotations, "description",
			    made_json(spike, "", spike_append_sentence));
	json_object_set_new(alert, "labels", labels);
	json_object_set_new(alert, "annotations", annotations);
	json_object_set_new(alert, "startsAt", time_json(spike->interval.from_ns));
	json_object_set_new(alert, "endsAt", time_json(now_ns + SPIKE_ALERT_S * NS_PER_SECOND));
	if (page_url)
		json_object_set_new(alert, "generatorURL",
				    made_json(spike, page_url, spike_append_path));
	return alert;
}

char *spike_alerts_encode(const struct spike *const *spikes, uint32_t count, const char *page_url,
			  uint64_t now_ns)
{
	json_t *alerts = json_array();
	char *text = NULL;

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(alerts, alert_json(spikes[i], page_url, now_ns));
	if (json_array_size(alerts) == count)
		text = json_dumps(alerts, JSON_COMPACT);
	json_decref(alerts);
	return text;
}
