// SPDX-License-Identifier: Apache-2.0
#include "cli/no_match.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/config/config_quantity.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/edit_distance.h"
#include "base/utf8.h"
#include "cli/selector_text.h"

#define SHORT_RANGE_NS (2 * 60 * NS_PER_SECOND)

enum { NAMES_SHOWN = 5, LIST_BYTES = 200, SELECTOR_BYTES = 160 };

// ---- names ----------------------------------------------------------------------------------

/* A name, and how far it is from what was typed. */
struct candidate {
	const char *name;
	uint32_t distance;
};

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *one = a, *other = b;

	if (one->distance != other->distance)
		return one->distance < other->distance ? -1 : 1;
	return strcmp(one->name, other->name);
}

const char *nearest_names(const json_t *names, const char *typed, char text[NAMES_TEXT_BYTES])
{
	size_t size = NAMES_TEXT_BYTES, count = json_array_size(names), used = 0, i;
	_cleanup_free_ struct candidate *candidates = calloc(count + 1, sizeof(*candidates));
	const json_t *name;

	*text = '\0';
	if (!candidates)
		return text;
	json_array_foreach(names, i, name)
	{
		const char *value = json_is_string(name) ? json_string_value(name) : "";

		candidates[i] =
			(struct candidate){ value, *typed ? edit_distance(typed, value) : 0 };
	}
	qsort(candidates, count, sizeof(*candidates), compare_candidates);
	for (i = 0; i < count && i < NAMES_SHOWN && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%.60s", i ? ", " : "",
					 candidates[i].name);
	if (count > NAMES_SHOWN && used < size)
		snprintf(text + used, size - used, ", ...");
	return text;
}

static bool has_name(const json_t *names, const char *wanted)
{
	const json_t *name;
	size_t i;

	json_array_foreach(names, i,
			   name) if (json_is_string(name) &&
				     strcmp(json_string_value(name), wanted) == 0) return true;
	return false;
}

static const char *nearest_name(const json_t *names, const char *typed)
{
	uint32_t least = edit_distance_of_slip(typed) + 1;
	const char *nearest = NULL;
	const json_t *name;
	size_t i;

	json_array_foreach(names, i, name)
	{
		const char *known = json_is_string(name) ? json_string_value(name) : "";
		uint32_t distance = edit_distance(typed, known);

		if (distance < least) {
			least = distance;
			nearest = known;
		}
	}
	return nearest;
}

/* The words for --type of @types; a type without one stands in five parts. */
static void list_types(const json_t *types, char *text, size_t size)
{
	const json_t *type;
	size_t used = 0, i;

	*text = '\0';
	json_array_foreach(types, i, type)
	{
		const char *name = json_is_string(type) ? json_string_value(type) : "";
		const struct profile_type_spec *spec = profile_type_spec(name);

		if (used < size)
			used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
						 spec && spec->word ? spec->word : name);
	}
}

// ---- explanations ---------------------------------------------------------------------------

/* A bare word as the matcher that it stands for. */
static void describe_selector(const char *selector, char *text, size_t size)
{
	if (!*selector)
		snprintf(text, size, "{}");
	else if (strchr(selector, '{'))
		snprintf(text, size, "%.120s", selector);
	else
		snprintf(text, size, "{" LABEL_SERVICE "=\"%.120s\"}", selector);
	utf8_clean(text);
}

/* A label that no series has. The tenant is no label of series. */
static int explain_label(const char *selector, const char *range, const json_t *labels,
			 struct error *err)
{
	char label[SELECTOR_LABEL_BYTES];

	for (const char *at = selector_text_matchers(selector);
	     (at = selector_text_next_label(at, label));) {
		const char *nearest = nearest_name(labels, label);

		if (has_name(labels, label) || strcmp(label, "tenant") == 0)
			continue;
		if (nearest)
			return error_set(err, -ENODATA,
					 "there is no label \"%s\"%s: did you mean \"%s\"?", label,
					 range, nearest);
		char names[NAMES_TEXT_BYTES];
		nearest_names(labels, label, names);
		return error_set(err, -ENODATA, "there is no label \"%s\"%s; labels there: %s",
				 label, range, names);
	}
	return 0;
}

static int explain_type(const char *selector, const char *range, const char *type,
			const struct stored_names *stored, struct error *err)
{
	const struct profile_type_spec *spec = profile_type_spec(type);
	char list[LIST_BYTES];

	list_types(stored->types, list, sizeof(list));
	if (has_name(stored->types, type)) // the index of types is coarser than the range
		return error_set(err, -ENODATA, "no samples of type %s match %s%s",
				 spec && spec->word ? spec->word : type, selector, range);
	return error_set(err, -ENODATA, "no samples of type %s match %s%s; types there: %s",
			 spec && spec->word ? spec->word : type, selector, range, list);
}

int no_match_explain(const char *selector, const char *range, const char *type,
		     const struct stored_names *stored, struct error *err)
{
	char text[SELECTOR_BYTES], service[SELECTOR_VALUE_BYTES], list[NAMES_TEXT_BYTES];

	if (!type && json_array_size(stored->types))
		return 0;
	if (!json_array_size(stored->labels))
		error_set(err, -ENODATA,
			  "nothing is stored%s; `cairn status` shows whether agents report", range);
	else if (!explain_label(selector, range, stored->labels, err)) {
		describe_selector(selector, text, sizeof(text));
		if (json_array_size(stored->types)) {
			explain_type(text, range, type, stored, err);
		} else {
			selector_text_service(selector, service);
			nearest_names(stored->services, service, list);
			error_set(err, -ENODATA, "no series match %s%s%s%s", text, range,
				  *list ? "; services there: " : "", list);
		}
	}
	utf8_clean(err->text);
	return -ENODATA;
}

// ---- the range ------------------------------------------------------------------------------

const char *range_text(uint64_t from_ns, uint64_t to_ns, uint64_t now_ns,
		       char text[RANGE_TEXT_BYTES])
{
	time_t from_s = (time_t)(from_ns / NS_PER_SECOND), to_s = (time_t)(to_ns / NS_PER_SECOND);
	time_t now_s = (time_t)(now_ns / NS_PER_SECOND);
	const long day_s = 24 * 3600;
	bool is_today = from_s / day_s == now_s / day_s && to_s / day_s == now_s / day_s;
	bool is_short = to_ns - from_ns < SHORT_RANGE_NS;
	const char *format = is_today ? (is_short ? "%H:%M:%S" : "%H:%M")
				      : (is_short ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M");
	char from[32] = "?", to[32] = "?";
	struct tm calendar;

	if (gmtime_r(&from_s, &calendar))
		strftime(from, sizeof(from), format, &calendar);
	if (gmtime_r(&to_s, &calendar))
		strftime(to, sizeof(to), format, &calendar);
	snprintf(text, RANGE_TEXT_BYTES, is_today ? " in %s-%s UTC" : " from %s to %s UTC", from,
		 to);
	return text;
}

static const char *range_of(const struct api_request *request, char text[RANGE_TEXT_BYTES])
{
	uint64_t now_ns = clock_realtime_ns(), from_ns, to_ns;
	struct error ignored = { 0 };

	*text = '\0';
	if (request->from && request->to &&
	    !time_parse(request->from, now_ns, &from_ns, &ignored) &&
	    !time_parse(request->to, now_ns, &to_ns, &ignored) && from_ns < to_ns)
		range_text(from_ns, to_ns, now_ns, text);
	return text;
}

// ---- what the collector has -----------------------------------------------------------------

/* @ret_root: for the caller to release. */
static int ask(const struct api_request *request, const char *selector, const char *path,
	       json_t **ret_root, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	struct api_request asked = *request;

	asked.selector = selector;
	api_request_begin_url(&asked, path, &url);
	int rc = api_request_send(request, &url, &response, err);
	if (!rc)
		*ret_root =
			json_loadb((const char *)response.body.bytes, response.body.size, 0, NULL);
	return rc;
}

/* The types' names alone, of objects. */
static json_t *type_names(const json_t *root)
{
	json_t *names = json_array();
	const json_t *type;
	size_t i;

	json_array_foreach(json_object_get(root, "types"), i, type)
		json_array_append_new(names, json_string(json_text_of(type, "type")));
	return names;
}

int no_match_ask(const struct api_request *request, const char *type, struct error *err)
{
	json_t *labels = NULL, *services = NULL, *types = NULL, *names = NULL;
	char range[RANGE_TEXT_BYTES], text[SELECTOR_BYTES];
	int rc = ask(request, "", "/api/v1/labels", &labels, err);

	if (!rc)
		rc = ask(request, "", "/api/v1/labels/" LABEL_SERVICE "/values", &services, err);
	if (!rc)
		rc = ask(request, request->selector, "/api/v1/types", &types, err);
	names = type_names(types);
	const struct stored_names stored = {
		.labels = json_object_get(labels, "names"),
		.services = json_object_get(services, "values"),
		.types = names,
	};
	describe_selector(request->selector, text, sizeof(text));
	rc = rc ? error_set(err, -ENODATA, "nothing matches %s%s", text, range_of(request, range))
		: no_match_explain(request->selector, range_of(request, range), type, &stored, err);
	json_decref(labels);
	json_decref(services);
	json_decref(types);
	json_decref(names);
	return rc;
}
