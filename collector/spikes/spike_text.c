// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spike_text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/wait_classes.h"

enum { CONTAINER_SHOWN_BYTES = 12 }; // as Docker and crictl print them

static double seconds_of(const struct spike *spike)
{
	return (double)(spike->interval.to_ns - spike->interval.from_ns) / (double)NS_PER_SECOND;
}

static void append_duration(struct buffer *text, double seconds)
{
	if (seconds < 1)
		buffer_printf(text, "%.0f ms", seconds * 1000);
	else if (seconds < 100)
		buffer_printf(text, "%.1f s", seconds);
	else if (seconds < 2 * 3600)
		buffer_printf(text, "%.0f min", seconds / 60);
	else
		buffer_printf(text, "%.1f h", seconds / 3600);
}

/** A figure in a type's own unit. */
static void append_value(struct buffer *text, const struct spike *spike, double value)
{
	static const char *const prefixes[] = { "", "K", "M", "G", "T" };
	size_t prefix = 0;

	if (strstr(spike->type->type, ":bytes:")) {
		for (; value >= 1024 && prefix + 1 < sizeof(prefixes) / sizeof(prefixes[0]);
		     prefix++)
			value /= 1024;
		buffer_printf(text, "%.*f %s%s", value < 10 ? 1 : 0, value, prefixes[prefix],
			      prefix ? "iB" : "B");
		return;
	}
	buffer_printf(text, "%.*f", value < 100 && value != floor(value) ? 1 : 0, value);
}

/** "blocked time (lock)" */
static void append_noun(struct buffer *text, const struct spike *spike)
{
	buffer_append_string(text, spike->type->noun);
	if (*spike->group && strcmp(spike->type->type, PROFILE_TYPE_OFF_CPU) == 0)
		buffer_printf(text, " (%s)", wait_class_spec(wait_class_find(spike->group))->title);
}

void spike_append_title(struct buffer *text, const struct spike *spike)
{
	double seconds = seconds_of(spike), ns = seconds * (double)NS_PER_SECOND;
	size_t at = text->size;

	append_noun(text, spike);
	if (!text->rc && text->size > at)
		text->bytes[at] = (uint8_t)toupper(text->bytes[at]);
	buffer_append_string(text, ": ");
	if (spike->type->rate) {
		buffer_printf(text, "%.2f %s instead of %.2f", spike->value / ns, spike->type->rate,
			      spike->usual / ns);
	} else {
		append_value(text, spike, spike->value);
		buffer_append_string(text, " instead of ");
		append_value(text, spike, spike->usual);
	}
	buffer_append_string(text, ", for ");
	append_duration(text, seconds);
	if (spike->goes_on)
		buffer_append_string(text, " and still going on");
}

static void append_code(struct buffer *text, const struct cause_code *code)
{
	if (*code->leaf)
		buffer_printf(text, "`%s`", code->leaf);
	if (*code->caller)
		buffer_printf(text, "%sunder `%s`", *code->leaf ? " " : "", code->caller);
}

static bool is_place(const char *label)
{
	return strcmp(label, LABEL_POD) == 0 || strcmp(label, LABEL_INSTANCE) == 0 ||
	       strcmp(label, LABEL_CONTAINER) == 0 || strcmp(label, LABEL_PROCESS) == 0;
}

/** A container's id is known by its first digits. */
static int shown_bytes(const struct cause_label *label)
{
	return strcmp(label->name, LABEL_CONTAINER) == 0 ? CONTAINER_SHOWN_BYTES
							 : CAUSE_VALUE_BYTES;
}

/** "on 2 of 38 pods (a, b)", "node gpu-17" */
static void append_label(struct buffer *text, const struct cause_label *label)
{
	uint32_t shown = label->count < CAUSE_VALUES_MAX ? label->count : CAUSE_VALUES_MAX;
	const char *plural = strcmp(label->name, LABEL_PROCESS) == 0 ? "es" : "s";

	if (label->count == 1 && !is_place(label->name)) {
		buffer_printf(text, "%s %s", label->name, label->values[0]);
		return;
	}
	buffer_printf(text, "on %u of %u %s%s (", label->count, label->of, label->name, plural);
	for (uint32_t i = 0; i < shown; i++)
		buffer_printf(text, "%s%.*s", i ? ", " : "", shown_bytes(label), label->values[i]);
	buffer_append_string(text, label->count > shown ? ", …)" : ")");
}

static void append_meanwhile(struct buffer *text, const struct spike *spike)
{
	const struct spike_cause *cause = &spike->cause;

	if (cause->meanwhile_cores <= 0)
		return;
	buffer_append_string(text, "; meanwhile ");
	if (strcmp(spike->type->type, PROFILE_TYPE_THROTTLED) == 0)
		buffer_printf(text, "it ran %.2f cores", cause->meanwhile_cores);
	else if (*cause->meanwhile_service)
		buffer_printf(text, "service %s took %.1f cores more", cause->meanwhile_service,
			      cause->meanwhile_cores);
	else
		buffer_printf(text, "its CPU time rose by %.1f cores", cause->meanwhile_cores);
	if (cause->meanwhile.share <= 0)
		return;
	buffer_printf(text, ", %.0f %% of it ", 100 * cause->meanwhile.share);
	append_code(text, &cause->meanwhile);
}

void spike_append_sentence(struct buffer *text, const struct spike *spike)
{
	const struct spike_cause *cause = &spike->cause;
	bool has_code = cause->code.share > 0;

	if (!has_code && !cause->label_count && cause->meanwhile_cores <= 0)
		return;
	if (has_code) {
		buffer_printf(text, "%.0f %% of the extra ", 100 * cause->code.share);
		append_noun(text, spike);
		buffer_append_string(text, " is ");
		append_code(text, &cause->code);
	} else {
		buffer_append_string(text, "The extra ");
		append_noun(text, spike);
		buffer_append_string(text, cause->label_count ? " is" : " has no stacks");
	}
	for (uint32_t i = 0; i < cause->label_count; i++) {
		buffer_append_string(text, has_code || i ? ", " : " ");
		append_label(text, &cause->labels[i]);
	}
	append_meanwhile(text, spike);
	buffer_append_byte(text, '.');
}

/** Everything but unreserved characters is escaped (RFC 3986). */
static void append_escaped(struct buffer *text, const char *value)
{
	for (const unsigned char *byte = (const unsigned char *)value; *byte; byte++) {
		if (isalnum(*byte) || strchr("-_.~", *byte))
			buffer_append_byte(text, *byte);
		else
			buffer_printf(text, "%%%02X", *byte);
	}
}

void spike_append_path(struct buffer *text, const struct spike *spike)
{
	const struct profile_type_spec *spec = profile_type_spec(spike->type->type);

	buffer_printf(text, "/?at=%llu&for=%llums&service=",
		      (unsigned long long)(spike->interval.from_ns / NS_PER_MS),
		      (unsigned long long)((spike->interval.to_ns - spike->interval.from_ns) /
					   NS_PER_MS));
	append_escaped(text, spike->service);
	buffer_printf(text, "&type=%s", spec && spec->word ? spec->word : spike->type->type);
	if (!spike->type->group_label)
		return;
	buffer_append_string(text, "&query=");
	append_escaped(text, "{");
	append_escaped(text, spike->type->group_label);
	append_escaped(text, "=\"");
	append_escaped(text, spike->group);
	append_escaped(text, "\"}");
}
