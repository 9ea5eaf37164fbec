// SPDX-License-Identifier: Apache-2.0
// Parses and checks the parameters of API calls, all of them before a handler runs.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config_quantity.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_type.h"
#include "collector/compare/exposure.h"
#include "collector/store/rows.h"

enum {
	DEFAULT_POINTS = 300,
	STEP_NS_MIN = 10 * 1000 * 1000, // an agent's shortest slot
	TIME_TEXT_BYTES = 96,           // of FROM/TO
	SPIKE_MIN_NS = 200 * 1000 * 1000,
};

static const struct {
	const char *name;
	enum api_parameter bit;
} parameters[] = {
	{ "query", API_QUERY },
	{ "type", API_TYPE },
	{ "from", API_FROM },
	{ "to", API_TO },
	{ "max_nodes", API_MAX_NODES },
	{ "group_by", API_GROUP_BY },
	{ "format", API_FORMAT },
	{ "limit", API_LIMIT },
	{ "step", API_STEP },
	{ "slot", API_SLOT },
	{ "dry_run", API_DRY_RUN },
	{ "hz", API_HZ },
	{ "profiles", API_PROFILES },
	{ "stop", API_STOP },
	{ "for", API_FOR },
	{ "ranges", API_RANGES },
	{ "min", API_MIN },
	{ "against", API_DIFF },
	{ "against_query", API_DIFF },
	{ "against_from", API_DIFF },
	{ "against_to", API_DIFF },
	{ "against_ranges", API_DIFF },
	{ "norm", API_DIFF },
	{ "per", API_DIFF },
	{ "sort", API_DIFF },
	{ "peak", API_PEAK },
	{ "lines", API_LINES },
	{ "function", API_FUNCTION },
	{ "context", API_CONTEXT },
};

/** The state of a parse. The first failure sets field and ends it. */
struct parsing {
	const struct http_request *request;
	unsigned int known;
	struct api_request *parsed;
	const char *field;
	struct error *err;
};

static int refuse_unknown(struct parsing *parsing, const char *name)
{
	char names[256] = ""; // of all parameters: below 200 bytes

	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++) {
		if (!(parsing->known & parameters[i].bit))
			continue;
		if (*names)
			strcat(names, ", ");
		strcat(names, parameters[i].name);
	}
	parsing->field = name;
	return error_set(parsing->err, -EINVAL, "unknown parameter \"%.40s\"; expected one of: %s",
			 name, *names ? names : "none");
}

static int check_known(struct parsing *parsing)
{
	const struct http_request *request = parsing->request;

	for (uint32_t i = 0; i < request->parameter_count; i++) {
		const char *name = request->parameters[i].name;
		bool known = false;

		for (size_t p = 0; p < ARRAY_SIZE(parameters); p++)
			known |= strcmp(parameters[p].name, name) == 0 &&
				 (parsing->known & parameters[p].bit);
		if (!known)
			return refuse_unknown(parsing, name);
		for (uint32_t other = 0; other < i; other++) {
			if (strcmp(request->parameters[other].name, name) == 0) {
				parsing->field = name;
				return error_set(parsing->err, -EINVAL, "given twice");
			}
		}
	}
	return 0;
}

/** The value of a parameter, "" if absent. Sets the field for the next failure. */
static const char *parameter(struct parsing *parsing, const char *name)
{
	parsing->field = name;
	return http_parameter(parsing->request, name);
}

static int parse_uint(struct parsing *parsing, const char *name, uint32_t preset, uint32_t min,
		      uint32_t max, uint32_t *ret_value)
{
	const char *text = parameter(parsing, name);
	size_t digits = strspn(text, "0123456789");

	if (!*text) {
		*ret_value = preset;
		return 0;
	}
	// Ten digits fit 64 bits.
	unsigned long long value = digits <= 10 ? strtoull(text, NULL, 10) : UINT64_MAX;
	if (text[digits] || value < min || value > max)
		return error_set(parsing->err, -EINVAL,
				 "\"%.40s\" is not a whole number from %u to %u", text, min, max);
	*ret_value = (uint32_t)value;
	return 0;
}

static int parse_duration(struct parsing *parsing, const char *name, uint64_t preset_ns,
			  uint64_t *ret_ns)
{
	const char *text = parameter(parsing, name);
	uint64_t ns = preset_ns;

	if (*text && duration_parse(text, &ns))
		return error_set(parsing->err, -EINVAL,
				 "\"%.40s\" is not a duration such as 20ms, 5s or 1h", text);
	if (ns < STEP_NS_MIN || ns > QUERY_RANGE_NS_MAX)
		return error_set(parsing->err, -EINVAL, "must be from 10ms to 31d");
	*ret_ns = ns;
	return 0;
}

static int parse_time(struct parsing *parsing, const char *name, const char *preset,
		      uint64_t *ret_ns)
{
	const char *text = parameter(parsing, name);

	return time_parse(*text ? text : preset, parsing->parsed->now_ns, ret_ns, parsing->err);
}

/** One end of what is deleted: minutes are stored apart from each other, and deleted whole. */
static int parse_minute(struct parsing *parsing, const char *name, uint64_t preset_ns,
			uint64_t *ret_ns)
{
	uint64_t time_ns = preset_ns;
	int rc = *parameter(parsing, name) ? parse_time(parsing, name, "", &time_ns) : 0;

	if (rc == 0 && time_ns % MINUTE_NS && time_ns != UINT64_MAX)
		rc = error_set(parsing->err, -EINVAL,
			       "profiles are deleted by whole minutes: the nearest are %llu and "
			       "%llu",
			       (unsigned long long)(time_ns / MINUTE_NS * 60),
			       (unsigned long long)(time_ns / MINUTE_NS * 60 + 60));
	*ret_ns = time_ns;
	return rc;
}

/** Without ends it is everything that is stored. */
static int parse_deleted_range(struct parsing *parsing)
{
	struct time_range *range = &parsing->parsed->range;
	int rc = parse_minute(parsing, "to", UINT64_MAX, &range->to_ns);

	if (!rc)
		rc = parse_minute(parsing, "from", 0, &range->from_ns);
	if (!rc && range->from_ns >= range->to_ns)
		rc = error_set(parsing->err, -EINVAL, "must be before to");
	return rc;
}

static int parse_bool(struct parsing *parsing, const char *name, bool *ret_value)
{
	const char *text = parameter(parsing, name);

	*ret_value = strcmp(text, "true") == 0;
	if (*text && !*ret_value && strcmp(text, "false") != 0)
		return error_set(parsing->err, -EINVAL, "\"%.40s\" is neither true nor false",
				 text);
	return 0;
}

static int parse_boost_time(struct parsing *parsing)
{
	const char *text = parameter(parsing, "for");
	uint64_t ns = 0;

	if (!*text)
		return error_set(parsing->err, -EINVAL, "is missing; a boost ends after it: 60s");
	if (duration_parse(text, &ns) || ns < NS_PER_SECOND ||
	    ns > BOOST_SECONDS_MAX * NS_PER_SECOND)
		return error_set(parsing->err, -EINVAL,
				 "\"%.40s\" is not a duration from 1s to %dm", text,
				 BOOST_SECONDS_MAX / 60);
	parsing->parsed->boost.left_ms = (uint32_t)(ns / NS_PER_MS);
	return 0;
}

static int parse_boost(struct parsing *parsing)
{
	struct boost *boost = &parsing->parsed->boost;

	if (!(parsing->known & API_FOR))
		return 0;
	int rc = parse_uint(parsing, "hz", 0, 1, BOOST_HZ_MAX, &boost->hz);
	if (!rc && *parameter(parsing, "profiles"))
		rc = boost_profiles_parse(http_parameter(parsing->request, "profiles"),
					  &boost->profiles, parsing->err);
	if (!rc)
		rc = parse_bool(parsing, "stop", &boost->stop);
	return rc ? rc : parse_boost_time(parsing);
}

/** One of `ranges`, FROM/TO of @size bytes. */
static int parse_part(struct parsing *parsing, const char *text, size_t size,
		      struct query_ranges *ranges)
{
	struct time_range *range = &ranges->at[ranges->count];
	char from[TIME_TEXT_BYTES], *to;

	if (ranges->count == QUERY_RANGES_MAX)
		return error_set(parsing->err, -EINVAL, "more than %d ranges", QUERY_RANGES_MAX);
	snprintf(from, sizeof(from), "%.*s", (int)(size < sizeof(from) ? size : sizeof(from) - 1),
		 text);
	to = strchr(from, '/');
	if (size >= sizeof(from) || !to)
		return error_set(parsing->err, -EINVAL,
				 "\"%.40s\" is not FROM/TO, two times with a slash between", from);
	*to++ = '\0';
	int rc = time_parse(from, parsing->parsed->now_ns, &range->from_ns, parsing->err);
	if (!rc)
		rc = time_parse(to, parsing->parsed->now_ns, &range->to_ns, parsing->err);
	if (rc)
		return rc;
	if (range->from_ns >= range->to_ns)
		return error_set(parsing->err, -EINVAL, "%s/%s: FROM must be before TO", from, to);
	ranges->count++;
	return 0;
}

/** FROM/TO,FROM/TO in @text: *ret_range is from the first begin to the last end. */
static int parse_parts(struct parsing *parsing, const char *text, struct query_ranges *ranges,
		       struct time_range *ret_range)
{
	while (text) {
		size_t size = strcspn(text, ",");
		int rc = parse_part(parsing, text, size, ranges);

		if (rc)
			return rc;
		text = text[size] ? text + size + 1 : NULL;
	}
	query_ranges_tidy(ranges);
	*ret_range = query_ranges_hull(ranges);
	return 0;
}

static int parse_ranges(struct parsing *parsing)
{
	const char *text = http_parameter(parsing->request, "ranges");

	if (*http_parameter(parsing->request, "from") || *http_parameter(parsing->request, "to"))
		return error_set(parsing->err, -EINVAL, "give either ranges, or from and to");
	return parse_parts(parsing, text, &parsing->parsed->ranges, &parsing->parsed->range);
}

static int check_length(struct parsing *parsing, const struct time_range *range)
{
	if (range->to_ns - range->from_ns > QUERY_RANGE_NS_MAX)
		return error_set(parsing->err, -EINVAL,
				 "the range is longer than 31 days; choose a later from");
	return 0;
}

static int parse_range(struct parsing *parsing)
{
	struct time_range *range = &parsing->parsed->range;

	if (*parameter(parsing, "ranges")) {
		int rc = parse_ranges(parsing);
		return rc ? rc : check_length(parsing, range);
	}

	if (parsing->known & API_DRY_RUN)
		return parse_deleted_range(parsing);
	int rc = parse_time(parsing, "to", "now", &range->to_ns);
	if (!rc)
		rc = parse_time(parsing, "from", "now-15m", &range->from_ns);
	if (rc)
		return rc;
	if (range->from_ns >= range->to_ns)
		return error_set(parsing->err, -EINVAL,
				 "must be before to (the defaults are from=now-15m and to=now)");
	return check_length(parsing, range);
}

static int parse_type(struct parsing *parsing)
{
	const char *text = parameter(parsing, "type");
	struct profile_type type;

	parsing->parsed->type = *text ? text : PROFILE_TYPE_CPU;
	int rc = profile_type_parse(parsing->parsed->type, &type, parsing->err);
	if (rc)
		return rc;
	memcpy(parsing->parsed->unit, type.sample_unit, sizeof(type.sample_unit));
	return 0;
}

static bool is_label_name(const char *text, size_t size)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

	return size > 0 && size <= LABEL_NAME_BYTES_MAX && strspn(text, letters) >= size &&
	       !strchr("0123456789", *text);
}

/* A label's name; of /api/v1/series also several with commas between. */
static int parse_group_by(struct parsing *parsing)
{
	const char *text = parameter(parsing, "group_by");
	uint32_t count = 0;

	for (const char *name = text; *text && name; count++) {
		size_t size = strcspn(name, ",");

		if (!is_label_name(name, size))
			return error_set(parsing->err, -EINVAL,
					 "\"%.40s\" is not a label's name ([a-zA-Z_][a-zA-Z0-9_]*)",
					 name);
		name = name[size] ? name + size + 1 : NULL;
	}
	if (count > (parsing->known & API_STEP ? QUERY_GROUP_LABELS_MAX : 1))
		return error_set(parsing->err, -EINVAL, "\"%.40s\": %s", text,
				 parsing->known & API_STEP
					 ? "too many labels"
					 : "one label only; /api/v1/series takes several");
	parsing->parsed->group_by = *text ? text : NULL;
	return 0;
}

/** "json", the default, or the name of a file's format. */
static int parse_format(struct parsing *parsing)
{
	const char *text = parameter(parsing, "format");

	if (!*text || strcmp(text, "json") == 0)
		return 0;
	parsing->parsed->is_file = true;
	return export_format_of_name(text, &parsing->parsed->format, parsing->err);
}

static int parse_lines(struct parsing *parsing)
{
	static const char *const names[] = {
		[FRAME_LINES_INTERPRETED] = "interpreted",
		[FRAME_LINES_NONE] = "none",
		[FRAME_LINES_ALL] = "all",
	};
	const char *text = parameter(parsing, "lines");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!*text || strcmp(text, names[i]) == 0) {
			parsing->parsed->lines = (enum frame_lines)i;
			return 0;
		}
	}
	return error_set(parsing->err, -EINVAL, "\"%.40s\" is not one of interpreted, none and all",
			 text);
}

static int parse_numbers(struct parsing *parsing)
{
	struct api_request *parsed = parsing->parsed;

	int rc = parse_uint(parsing, "max_nodes", QUERY_NODES_DEFAULT, 1, QUERY_NODES_MAX,
			    &parsed->max_nodes);
	if (!rc)
		rc = parse_uint(parsing, "limit", API_LIMIT_DEFAULT, 1, API_LIMIT_MAX,
				&parsed->limit);
	if (!rc)
		rc = parse_uint(parsing, "context", API_CONTEXT_DEFAULT, 0, API_CONTEXT_MAX,
				&parsed->context);
	if (!rc)
		rc = parse_duration(parsing, "step",
				    api_default_step(parsed->range.to_ns - parsed->range.from_ns),
				    &parsed->step_ns);
	if (!rc)
		rc = parse_duration(parsing, "slot", 20 * NS_PER_MS, &parsed->slot_ns);
	if (!rc)
		rc = parse_duration(parsing, "min", SPIKE_MIN_NS, &parsed->min_ns);
	if (!rc && *parameter(parsing, "peak"))
		rc = parse_duration(parsing, "peak", 0, &parsed->peak_ns);
	return rc;
}

const char *api_tenant(const struct http_request *request)
{
	const char *tenant = request->identity.tenant;

	return strcmp(tenant, ACCESS_ALL_TENANTS) == 0 ? SELECTOR_ALL_TENANTS : tenant;
}

struct tenant *api_limited(struct http_api *api, const struct http_request *request)
{
	return tenant_limits_find(api->limits, request->identity.tenant);
}

/** One of two words, the first by default. */
static int parse_choice(struct parsing *parsing, const char *name, const char *preset,
			const char *other, bool *ret_is_other)
{
	const char *text = parameter(parsing, name);

	*ret_is_other = strcmp(text, other) == 0;
	if (*text && !*ret_is_other && strcmp(text, preset) != 0)
		return error_set(parsing->err, -EINVAL, "\"%.40s\" is neither %s nor %s", text,
				 preset, other);
	return 0;
}

static int parse_per(struct parsing *parsing)
{
	const char *text = parameter(parsing, "per");

	if (*text && !is_label_name(text, strlen(text)))
		return error_set(parsing->err, -EINVAL,
				 "\"%.40s\" is not auto, none or a label's name", text);
	parsing->parsed->diff.per = *text ? text : EXPOSURE_PER_AUTO;
	return 0;
}

/** @range, @ago_ns earlier. */
static int shift_range(struct parsing *parsing, struct time_range *range, uint64_t ago_ns)
{
	if (range->from_ns <= ago_ns)
		return error_set(parsing->err, -EINVAL, "lies before 1970");
	range->from_ns -= ago_ns;
	range->to_ns -= ago_ns;
	return 0;
}

/** The same series so long ago. */
static int shift_sides(struct parsing *parsing, uint64_t ago_ns)
{
	struct api_diff *diff = &parsing->parsed->diff;
	int rc;

	diff->range = parsing->parsed->range;
	diff->ranges = parsing->parsed->ranges;
	rc = shift_range(parsing, &diff->range, ago_ns);
	for (uint32_t i = 0; !rc && i < diff->ranges.count; i++)
		rc = shift_range(parsing, &diff->ranges.at[i], ago_ns);
	return rc;
}

/** The time that against_from and against_to give. */
static int parse_against_range(struct parsing *parsing)
{
	static const char *const names[] = { "against_from", "against_to" };
	struct time_range *range = &parsing->parsed->diff.range;
	uint64_t *const ends[] = { &range->from_ns, &range->to_ns };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!*parameter(parsing, names[i]))
			return error_set(parsing->err, -EINVAL,
					 "is missing; against_from and against_to go together");
		int rc = parse_time(parsing, names[i], "", ends[i]);
		if (rc)
			return rc;
	}
	parsing->field = names[0];
	return range->from_ns < range->to_ns
		       ? check_length(parsing, range)
		       : error_set(parsing->err, -EINVAL, "must be before against_to");
}

/** The time range that against_from and against_to give, without what it is compared with. */
static int parse_rest(struct parsing *parsing)
{
	const struct api_request *parsed = parsing->parsed;
	struct query_ranges holes = parsed->ranges;
	struct api_diff *diff = &parsing->parsed->diff;
	int rc = parse_against_range(parsing);

	if (rc)
		return rc;
	if (!holes.count)
		holes.at[holes.count++] = parsed->range;
	if (query_ranges_without(diff->range, &holes, &diff->ranges))
		return error_set(parsing->err, -EINVAL, "the rest has more than %d ranges",
				 QUERY_RANGES_MAX);
	if (!diff->ranges.count)
		return error_set(parsing->err, -EINVAL,
				 "nothing is left of the time from against_from to against_to");
	diff->range = query_ranges_hull(&diff->ranges);
	return 0;
}

static bool has_parameter(const struct parsing *parsing, const char *name)
{
	return *http_parameter(parsing->request, name);
}

/** The baseline's time: given, so long ago, the rest of a time range, or the time just before. */
static int parse_against(struct parsing *parsing)
{
	struct api_diff *diff = &parsing->parsed->diff;
	const struct time_range *range = &parsing->parsed->range;
	bool has_ranges = has_parameter(parsing, "against_ranges");
	bool has_times =
		has_parameter(parsing, "against_from") || has_parameter(parsing, "against_to");
	const char *text = parameter(parsing, "against");
	uint64_t ago_ns =
		has_parameter(parsing, "against_query") ? 0 : range->to_ns - range->from_ns;
	bool is_rest = strcmp(text, "rest") == 0;

	if (*text && !is_rest && duration_parse(text, &ago_ns))
		return error_set(parsing->err, -EINVAL,
				 "\"%.40s\" is neither rest nor a duration such as 1d", text);
	if ((*text && !is_rest) + has_times + has_ranges > 1)
		return error_set(
			parsing->err, -EINVAL,
			"a duration, against_from and against_ranges all say when: give one");
	if (is_rest)
		return parse_rest(parsing);
	if (has_times)
		return parse_against_range(parsing);
	if (!has_ranges)
		return shift_sides(parsing, ago_ns);
	int rc = parse_parts(parsing, parameter(parsing, "against_ranges"), &diff->ranges,
			     &diff->range);
	return rc ? rc : check_length(parsing, &diff->range);
}

static int parse_diff(struct parsing *parsing)
{
	struct api_diff *diff = &parsing->parsed->diff;

	if (!(parsing->known & API_DIFF))
		return 0;
	diff->query_texts[1] = parameter(parsing, "query");
	diff->query_texts[0] = parameter(parsing, "against_query");
	if (!*diff->query_texts[0])
		diff->query_texts[0] = diff->query_texts[1];
	int rc = selector_parse(diff->query_texts[0], api_tenant(parsing->request), &diff->baseline,
				parsing->err);
	if (!rc)
		rc = parse_against(parsing);
	if (!rc)
		rc = parse_choice(parsing, "norm", "rate", "share", &diff->is_share);
	if (!rc)
		rc = parse_choice(parsing, "sort", "self", "total", &diff->by_total);
	if (!rc)
		rc = parse_per(parsing);
	return rc;
}

static int parse_all(struct parsing *parsing)
{
	int rc = check_known(parsing);
	if (!rc)
		rc = selector_parse(parameter(parsing, "query"), api_tenant(parsing->request),
				    &parsing->parsed->selector, parsing->err);
	if (!rc)
		rc = parse_range(parsing);
	if (!rc)
		rc = parse_type(parsing);
	if (!rc)
		rc = parse_group_by(parsing);
	if (!rc)
		rc = parse_format(parsing);
	if (!rc)
		rc = parse_lines(parsing);
	parsing->parsed->function = http_parameter(parsing->request, "function");
	if (!rc)
		rc = parse_numbers(parsing);
	if (!rc)
		rc = parse_bool(parsing, "dry_run", &parsing->parsed->dry_run);
	if (!rc)
		rc = parse_boost(parsing);
	if (!rc)
		rc = parse_diff(parsing);
	return rc;
}

int api_request_parse(const struct http_request *request, unsigned int known,
		      struct api_request *ret_parsed, const char **ret_field, struct error *err)
{
	struct api_request parsed = {
		.now_ns = clock_realtime_ns(),
		.http = request,
	};
	struct parsing parsing = {
		.request = request,
		.known = known,
		.parsed = &parsed,
		.field = "",
		.err = err,
	};

	int rc = parse_all(&parsing);
	if (rc) {
		api_request_deinit(&parsed);
		err->code = rc;
		*ret_field = parsing.field;
		return rc;
	}
	selector_set_deadline(&parsed.selector, request->deadline);
	if (known & API_DIFF)
		selector_set_deadline(&parsed.diff.baseline, request->deadline);
	*ret_parsed = parsed;
	return 0;
}

/** Does the selector, whose reader may see all tenants, name one? "" counts: series without a tenant. */
static bool names_tenant(const struct selector *selector)
{
	for (uint32_t i = 0; i < selector->count; i++)
		if (selector->matchers[i].op == MATCH_EQUAL &&
		    strcmp(selector->matchers[i].name, LABEL_TENANT) == 0)
			return true;
	return false;
}

/* A slip of the pen must not concern everything, nor what is another tenant's. */
int http_check_selector(const struct http_api *api, const struct api_request *request,
			const char *act, struct error *err)
{
	if (!*http_parameter(request->http, "query"))
		return error_set(err, -EINVAL,
				 "is missing; name the series to %s, {} for all of them", act);
	if (api->access && access_needs_login(api->access) && request->selector.all_tenants &&
	    !names_tenant(&request->selector))
		return error_set(err, -EINVAL,
				 "the credential is for all tenants: name one of them, as in "
				 "{tenant=\"shop\"}; tenant=\"\" is for series without one");
	return 0;
}

void api_request_deinit(struct api_request *parsed)
{
	selector_deinit(&parsed->selector);
	selector_deinit(&parsed->diff.baseline);
}

uint64_t api_default_step(uint64_t range_ns)
{
	static const uint32_t steps_ms[] = {
		20,    40,    100,    200,    500,    1000,   2000,    5000,    10000,   15000,
		30000, 60000, 120000, 300000, 600000, 900000, 1800000, 3600000, 7200000, 10800000,
	};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(steps_ms) && steps_ms[i] * NS_PER_MS * DEFAULT_POINTS < range_ns)
		i++;
	return steps_ms[i] * NS_PER_MS;
}

struct symbol_space *api_symbols(struct http_api *api, const struct http_request *request,
				 struct error *err)
{
	return api->symbols ? symbol_spaces_get(api->symbols, request->identity.tenant, err) : NULL;
}

struct query api_query(struct http_api *api, const struct api_request *request)
{
	// Without symbols the query still answers, by offsets.
	const struct symbol_space *symbols = api_symbols(api, request->http, NULL);

	return (struct query){
		.store = api->store,
		.selector = &request->selector,
		.type = request->type,
		.range = request->range,
		.parts = request->ranges,
		.group_by = request->group_by,
		.lines = request->lines,
		.symbolizer = symbols ? symbols->symbolizer : NULL,
	};
}
