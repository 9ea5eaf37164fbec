// SPDX-License-Identifier: Apache-2.0
// cairn query: ask a collector for a merged profile, as a file or as a table of functions.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/profile_type.h"
#include "cli/command.h"
#include "cli/function_table.h"
#include "cli/group_table.h"
#include "cli/http_client.h"
#include "cli/no_match.h"
#include "cli/output_file.h"
#include "cli/output_format.h"
#include "cli/api_request.h"
#include "cli/selector_text.h"
#include "cli/shedding_notes.h"
#include "cli/source_table.h"
#include "proto/export.h"

enum {
	HELP_COLUMNS = 79,
	NOTES_BYTES = 4096,
	NOTES_SHOWN = 3,                 // of nodes
	EMPTY_FILE_BYTES_MAX = 32 << 10, // of a profile without samples; an SVG has its script
};

struct query_options {
	struct api_request request;
	char *type_text;
	const char *type; // in five parts
	char *group_text;
	const char *group_by; // asked for, or of a type without stacks; NULL: functions are shown
	char *output, *format_text;
	char *function; // whose lines are shown; NULL: functions are
	uint64_t limit;
	bool lines;
	bool json;
	bool idle;
	char *busy_selector, *idle_selector; // NULL: idle time is not excluded
	enum export_format format;
};

static const char notes_format[] =
	"SELECTOR is PromQL's: '{service=\"llm\", node!~\"test.*\"}', or a bare service\n"
	"name; without it all series are merged. TIME is now, now-5m, RFC 3339\n"
	"(2026-11-21T10:00:00Z) or Unix seconds. Without -o it prints the functions with the most\n"
	"time. TYPE is a profile type in five parts or one of these words:\n"
	"%s.\n"
	"The suffix of FILE selects the format, unless --format does, which alone writes to\n"
	"standard output:\n"
	"%s"
	"Off-CPU time excludes idle workers and event loops, unless SELECTOR names the\n"
	"label wait; how much was excluded is printed. A type without stacks is printed by its\n"
	"own label, as wall by state; --group-by prints every type by labels. Nodes that shed load "
	"in the range are noted (in JSON:\n"
	"notes). If nothing matches, FILE is not written, and the exit status is 1.\n"
	"--function prints the lines of one function with their text, where `cairn upload\n"
	"--sources` or the collector's --source-folders have it.\n"
	"\n"
	"  cairn query checkout\n"
	"  cairn query checkout --type wall\n"
	"  cairn query '{service=\"llm\"}' --from now-1h -o llm.svg\n"
	"  cairn query '{service=\"llm\"}' --group-by version\n"
	"  cairn query llm --function 'Model.forward (model.py)'\n"
	"  cairn query '{pod=\"llm-0\"}' --from now-10s -o llm.trace.json  # for Perfetto\n"
	"  cairn query checkout --format collapsed | flamegraph.pl > checkout.svg\n"
	"  cairn query '{service=\"llm\", wait=\"lock\"}' --type off-cpu\n";

static int parse(int argc, char **argv, struct query_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		API_REQUEST_OPTIONS(&options->request),
		{ "output", 'o', CONFIG_STRING, &options->output, NULL, 0, 0, "FILE",
		  "write a profile to FILE instead of printing a table" },
		{ "format", 0, CONFIG_STRING, &options->format_text, NULL, 0, 0, "FORMAT",
		  "format of FILE, or without one of standard output" },
		{ "type", 0, CONFIG_STRING, &options->type_text, "cpu", 0, 0, "TYPE",
		  "profile type" },
		{ "group-by", 0, CONFIG_STRING, &options->group_text, NULL, 0, 0, "LABEL",
		  "print values of labels instead of functions: node, or pod,thread" },
		{ "idle", 0, CONFIG_BOOL, &options->idle, NULL, 0, 0, NULL,
		  "include idle off-CPU time" },
		{ "lines", 0, CONFIG_BOOL, &options->lines, NULL, 0, 0, NULL,
		  "print a function's lines apart, where they are known" },
		{ "function", 0, CONFIG_STRING, &options->function, NULL, 0, 0, "NAME",
		  "print the lines of this function, called as in the table" },
		{ "limit", 0, CONFIG_UINT, &options->limit, "40", 1, 100000, "N",
		  "rows of the table" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
	};
	char words[PROFILE_TYPE_WORDS_BYTES], formats[EXPORT_HELP_BYTES], notes[NOTES_BYTES];
	const struct config_program program = {
		.name = "cairn query",
		.summary = "Get the merged profile of the series that SELECTOR matches.",
		.usage = "cairn query [SELECTOR] [--from TIME] [--to TIME] [-o FILE]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	profile_type_words(words, sizeof(words), HELP_COLUMNS);
	export_format_help(formats);
	snprintf(notes, sizeof(notes), notes_format, words, formats);
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	return api_request_set_selector(&options->request, argc - first_word, argv + first_word,
					err);
}

static bool has_waits(const char *type)
{
	const struct profile_type_spec *spec = profile_type_spec(type);

	return spec && profile_type_spec_has_label(spec, LABEL_WAIT);
}

/* As the page does: a selector that names the label wait is used as it is. */
static void exclude_idle(struct query_options *options)
{
	const char *selector = options->request.selector;

	if (options->idle || !has_waits(options->type) || selector_text_names(selector, LABEL_WAIT))
		return;
	options->busy_selector = selector_text_with(selector, LABEL_WAIT "!=\"idle\"");
	options->idle_selector = selector_text_with(selector, LABEL_WAIT "=\"idle\"");
}

/* The label that tells most of a type without stacks: its own, else the process if the service is given. */
static const char *group_by_of(const struct query_options *options)
{
	const struct profile_type_spec *spec = profile_type_spec(options->type);

	if (options->group_text && *options->group_text)
		return options->group_text;
	if (!spec || !spec->no_stacks || options->output)
		return NULL;
	if (!spec->group_by)
		return *options->request.selector ? LABEL_PROCESS : LABEL_SERVICE;
	return strcmp(spec->group_by, LABEL_KNOB) == 0 ? LABEL_KNOB "," LABEL_STEP : spec->group_by;
}

static int check_output(struct query_options *options, struct error *err)
{
	bool is_standard = output_is_standard(options->output);
	int rc = is_standard ? 0 : output_file_check_name(options->output, err);

	if (!rc && is_standard && !options->format_text)
		rc = error_set(err, -EINVAL,
			       "-o -: name the format of standard output by "
			       "--format");
	if (!rc)
		rc = output_format_find(options->output, options->format_text, &options->format,
					err);
	if (!rc && is_standard && isatty(STDOUT_FILENO) &&
	    (options->format == EXPORT_PPROF || options->format == EXPORT_PSTATS))
		rc = error_set(err, -EINVAL,
			       "--format %s: bytes for a program, not for a terminal: name a file "
			       "with -o",
			       options->format_text);
	return rc;
}

static int check(struct query_options *options, struct error *err)
{
	struct error cause = { 0 };
	int rc = api_request_check(&options->request, err);

	if (!rc && profile_type_of_text(options->type_text, &options->type, &cause))
		rc = error_set(err, -EINVAL, "--type: %s", cause.text);
	if (!rc)
		exclude_idle(options);
	if (!rc)
		options->group_by = group_by_of(options);
	if (!rc && options->format_text && !options->output) {
		options->output = strdup(OUTPUT_STANDARD);
		rc = options->output ? 0 : error_set(err, -ENOMEM, "out of memory");
	}
	if (!rc && options->output)
		rc = check_output(options, err);
	if (!rc && options->output && options->json)
		rc = error_set(err, -EINVAL, "--json and -o cannot be combined");
	if (!rc && options->function && (options->output || options->group_text || options->lines))
		rc = error_set(err, -EINVAL,
			       "--function goes with neither -o, --group-by nor --lines");
	return rc;
}

static void options_deinit(struct query_options *options)
{
	api_request_deinit(&options->request);
	free(options->type_text);
	free(options->output);
	free(options->format_text);
	free(options->function);
	free(options->group_text);
	free(options->busy_selector);
	free(options->idle_selector);
}

static const char *path_of(const struct query_options *options)
{
	if (options->function)
		return "/api/v1/lines";
	if (options->output)
		return "/api/v1/merge";
	// Only this one takes several labels; its first step may begin before --from.
	if (options->group_by && strchr(options->group_by, ','))
		return "/api/v1/series";
	return "/api/v1/top";
}

static void build_url(const struct query_options *options, struct buffer *url)
{
	const char *path = path_of(options);
	char limit[24];

	api_request_begin_url(&options->request, path, url);
	http_append_parameter(url, "type", options->type);
	http_append_parameter(url, "function", options->function);
	http_append_parameter(url, "group_by", options->function ? NULL : options->group_by);
	if (options->output)
		http_append_parameter(url, "format", export_format_spec(options->format)->name);
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)options->limit);
	if (strcmp(path, "/api/v1/top") != 0)
		return;
	http_append_parameter(url, "limit", limit);
	http_append_parameter(url, "lines", options->lines ? "all" : "none");
}

static int fetch(const struct query_options *options, struct http_response *response,
		 struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	struct query_options asked = *options;

	if (options->busy_selector)
		asked.request.selector = options->busy_selector;
	build_url(&asked, &url);
	return api_request_send(&options->request, &url, response, err);
}

/* The sum of what @selector matches, without a table; 0 also if the collector does not answer. */
static int64_t fetch_total(const struct query_options *options, const char *selector)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	struct query_options asked = *options;
	struct error ignored = { 0 };

	asked.request.selector = selector;
	asked.output = NULL;
	asked.function = NULL;
	asked.group_by = NULL;
	asked.limit = 1;
	build_url(&asked, &url);
	if (api_request_send(&options->request, &url, &response, &ignored))
		return 0;
	json_t *root = json_loadb((const char *)response.body.bytes, response.body.size, 0, NULL);
	int64_t total = json_integer_value(json_object_get(root, "total"));

	json_decref(root);
	return total;
}

/* Excluded time in nanoseconds. */
static int64_t fetch_idle(const struct query_options *options)
{
	return options->idle_selector ? fetch_total(options, options->idle_selector) : 0;
}

/* On standard error, so that standard output has the table alone. */
static void report_idle(const struct query_options *options)
{
	int64_t idle_ns = fetch_idle(options);

	if (idle_ns)
		fprintf(stderr, "%.1f s of idle off-CPU time excluded; --idle includes it\n",
			(double)idle_ns / NS_PER_SECOND);
}

/* Has the answer no sample? A file does not say so, but one with samples is seldom as small. */
static bool is_empty(const struct query_options *options, const struct http_response *response)
{
	if (options->output)
		return response->body.size <= EMPTY_FILE_BYTES_MAX &&
		       !fetch_total(options, options->busy_selector ? options->busy_selector
								    : options->request.selector);
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	bool is_empty = root && !group_table_has_values(root);

	json_decref(root);
	return is_empty;
}

/* Why there is no sample. Returns -ENODATA. */
static int explain_empty(const struct query_options *options, bool is_replacing, struct error *err)
{
	struct error cause = { 0 };
	int64_t idle_ns = fetch_idle(options);

	if (idle_ns)
		error_set(&cause, -ENODATA,
			  "only idle off-CPU time matches (%.1f s); --idle includes it",
			  (double)idle_ns / NS_PER_SECOND);
	else
		no_match_ask(&options->request, options->type, &cause);
	return error_set(err, -ENODATA, "%s%s%s%s", cause.text, is_replacing ? "; " : "",
			 is_replacing ? options->output : "",
			 is_replacing ? " left as it was" : "");
}

static enum frame_kind kind_of_name(const char *name)
{
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
		if (strcmp(frame_kind_name((enum frame_kind)kind), name) == 0)
			return (enum frame_kind)kind;
	return FRAME_KIND_UNKNOWN;
}

static int read_rows(const json_t *root, struct function_table *table)
{
	const json_t *rows = json_object_get(root, "rows");
	const json_t *row;
	size_t i;
	int rc = json_is_array(rows) ? 0 : -EBADMSG;

	json_array_foreach(rows, i, row)
	{
		if (rc)
			break;
		rc = function_table_add(table, "", json_text_of(row, "name"),
					kind_of_name(json_text_of(row, "kind")),
					json_integer_value(json_object_get(row, "self")),
					json_integer_value(json_object_get(row, "total")));
	}
	table->total = json_integer_value(json_object_get(root, "total"));
	return rc;
}

/* Why the table has no functions, and which types have. */
static void report_no_stacks(const struct query_options *options)
{
	const struct profile_type_spec *spec = profile_type_spec(options->type);

	fprintf(stderr, "%s", spec->no_stacks);
	for (size_t i = 0; spec->see[i]; i++) {
		const struct profile_type_spec *other = profile_type_spec(spec->see[i]);

		fprintf(stderr, "%s %s", i ? "," : "",
			other && other->word ? other->word : spec->see[i]);
	}
	fputc('\n', stderr);
}

static int print_groups(const struct query_options *options, const struct http_response *response,
			struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	int rc = group_table_print(root, options->group_by, (uint32_t)options->limit, stdout);

	json_decref(root);
	return rc ? error_set(err, rc, "%s did not answer with a table; is it a cairn-collector?",
			      options->request.collector_http)
		  : 0;
}

static int print_table(const struct query_options *options, const struct http_response *response,
		       struct error *err)
{
	_cleanup_(function_table_deinit) struct function_table table = { 0 };
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	int rc = root ? read_rows(root, &table) : -EBADMSG;
	char unit[32];

	json_word_of(root, "unit", unit, sizeof(unit));
	json_decref(root);
	if (!rc)
		rc = function_table_select(&table, "", ORDER_BY_SELF);
	if (rc == -EBADMSG)
		return error_set(err, rc,
				 "%s did not answer with a table; is it a cairn-collector?",
				 options->request.collector_http);
	if (rc)
		return error_errno(err, rc, "function table");

	if (strcmp(unit, "nanoseconds") == 0)
		printf("%.3f s in total\n", (double)table.total / NS_PER_SECOND);
	else
		printf("%lld %s %s\n", (long long)table.total, unit,
		       profile_type_is_gauge(options->type) ? "on average" : "in total");
	function_table_print(&table, (uint32_t)options->limit, stdout);
	return 0;
}

/* The collector's answer; with @notes (an array) as one more field, unless it is empty. */
static void print_json(const struct http_response *response, json_t *notes)
{
	json_t *root = NULL;

	if (json_array_size(notes))
		root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	if (json_is_object(root)) {
		json_object_set(root, "notes", notes);
		json_dumpf(root, stdout, JSON_COMPACT);
	} else {
		fwrite(response->body.bytes, 1, response->body.size, stdout);
	}
	fputc('\n', stdout);
	json_decref(root);
}

static void report_notes(const json_t *notes)
{
	const json_t *note;
	size_t i;

	json_array_foreach(notes, i, note)
	{
		if (i == NOTES_SHOWN) {
			fprintf(stderr, "note: %zu more nodes shed load\n",
				json_array_size(notes) - i);
			return;
		}
		fprintf(stderr, "note: %s\n", json_string_value(note));
	}
}

static int print_answer(const struct query_options *options, const struct http_response *response,
			json_t *notes, struct error *err)
{
	int rc = 0;

	if (options->json) {
		print_json(response, notes);
	} else if (options->group_by) {
		rc = print_groups(options, response, err);
	} else {
		rc = print_table(options, response, err);
	}
	if (!rc && (fflush(stdout) || ferror(stdout)))
		rc = error_errno(err, -errno, "cannot write to standard output");
	return rc;
}

static int show(const struct query_options *options, const struct http_response *response,
		struct output_file *file, struct error *err)
{
	bool empty = is_empty(options, response);
	json_t *notes = empty ? NULL : shedding_notes_ask(&options->request, options->type);
	int rc = 0;

	if (!options->output && (!empty || options->json))
		rc = print_answer(options, response, notes, err);
	if (!rc && empty)
		rc = explain_empty(options, options->output && output_file_replaces(file), err);
	if (!rc && options->output)
		rc = output_file_finish(file, &response->body, err);
	if (!rc && options->output && !output_is_standard(options->output))
		fprintf(stderr, "wrote %s\n", options->output);
	if (!rc)
		report_notes(notes);
	json_decref(notes);
	return rc;
}

static int show_lines(const struct query_options *options, const struct http_response *response,
		      struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	int rc = json_is_object(root) ? 0 : -EBADMSG;

	if (!rc && !source_table_has_lines(root))
		rc = error_set(err, -ENODATA,
			       "no function is called \"%.200s\" there; `cairn query` without "
			       "--function prints how functions are called",
			       options->function);
	else if (!rc && options->json)
		print_json(response, NULL);
	else if (!rc)
		rc = source_table_print(root, stdout);
	json_decref(root);
	return rc == -EBADMSG ? error_set(err, rc,
					  "%s did not answer with lines; is it a cairn-collector?",
					  options->request.collector_http)
			      : rc;
}

static int query_lines(const struct query_options *options, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	int rc = fetch(options, &response, err);

	if (!rc)
		rc = show_lines(options, &response, err);
	if (!rc && (fflush(stdout) || ferror(stdout)))
		rc = error_errno(err, -errno, "cannot write to standard output");
	if (!rc)
		report_idle(options);
	return rc;
}

static int query(const struct query_options *options, struct error *err)
{
	_cleanup_(output_file_discard) struct output_file file = { 0 };
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	int rc = options->output ? output_file_open(options->output, &file, err) : 0;

	if (!rc)
		rc = fetch(options, &response, err);
	if (!rc)
		rc = show(options, &response, &file, err);
	if (rc)
		return rc;
	report_idle(options);
	if (options->group_by && !options->group_text)
		report_no_stacks(options);
	return 0;
}

int cmd_query(int argc, char **argv)
{
	_cleanup_(options_deinit) struct query_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (!rc)
		rc = check(&options, &err);
	if (rc) {
		fprintf(stderr, "cairn query: %s\n", err.text);
		return EXIT_USAGE;
	}
	rc = options.function ? query_lines(&options, &err) : query(&options, &err);
	return command_exit("cairn query", rc, &err);
}
