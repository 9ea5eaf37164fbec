// SPDX-License-Identifier: Apache-2.0
// cairn diff: what changed between two profiles of a collector, and whether by more than chance.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/config/config_quantity.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_type.h"
#include "base/contract/profile_types.h"
#include "cli/api_request.h"
#include "cli/command.h"
#include "cli/diff_table.h"
#include "cli/http_client.h"
#include "cli/no_match.h"
#include "cli/output_file.h"
#include "cli/selector_text.h"

enum { FUNCTIONS_MAX = 10000 /* the collector's limit */, NOTES_BYTES = 2560, HELP_COLUMNS = 79 };

struct diff_options {
	struct api_request request;
	char *against, *against_from, *against_to;
	char *type_text, *norm, *per, *sort, *only, *output;
	const char *type; // in five parts
	uint64_t limit;
	bool all, json, idle;
	const char *against_selector, *against_time; // parts of @against
	char *busy_selectors[2];                     // without idle time; NULL: as they were given
};

static const char notes_format[] =
	"SELECTOR is PromQL's: '{service=\"llm\", node!~\"test.*\"}', or a bare service\n"
	"name. TIME is now, now-5m, RFC 3339 (2026-11-21T10:00:00Z) or Unix seconds.\n"
	"BASELINE is a duration (the same series so long ago), a selector (other series at the\n"
	"same time), or rest (the time from --against-from to --against-to except the range).\n"
	"Without one it is the time just before the range.\n"
	"\n"
	"Values are per instance: a pod, or for what is in none its node. --per none takes all\n"
	"series as one; --per LABEL makes each value of a label an instance. p is the probability\n"
	"that chance makes such a change: \"few\" where there are too few samples. Only functions "
	"whose\n"
	"change is significant are printed, unless --all; the others have a \"?\" behind p.\n"
	"TYPE is a profile type in five parts or one of these words:\n"
	"%s.\n"
	"Off-CPU time excludes idle workers and event loops, unless SELECTOR names the label "
	"wait.\n"
	"-o writes stacks with both sides' values, for flamegraph.pl.\n"
	"\n"
	"Exit status: 0 both sides were compared; 1 a side has no samples, or the collector or a\n"
	"file failed; 2 the command line is wrong.\n"
	"\n"
	"  cairn diff checkout --from now-1h --against 1d\n"
	"  cairn diff '{service=\"llm\", version=\"1.5\"}' --against '{service=\"llm\", "
	"version=\"1.4\"}'\n"
	"  cairn diff llm --from 2026-11-21T10:04:10Z --to 2026-11-21T10:04:20Z --against rest \\\n"
	"    --against-from 2026-11-21T10:00:00Z --against-to 2026-11-21T10:15:00Z\n";

static int parse(int argc, char **argv, struct diff_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		API_REQUEST_OPTIONS(&options->request),
		{ "against", 0, CONFIG_STRING, &options->against, NULL, 0, 0, "BASELINE",
		  "what to compare with: 1d, a selector, or rest" },
		{ "against-from", 0, CONFIG_STRING, &options->against_from, NULL, 0, 0, "TIME",
		  "begin of the baseline" },
		{ "against-to", 0, CONFIG_STRING, &options->against_to, NULL, 0, 0, "TIME",
		  "end of the baseline, itself not included" },
		{ "type", 't', CONFIG_STRING, &options->type_text, "cpu", 0, 0, "TYPE",
		  "profile type" },
		{ "norm", 0, CONFIG_STRING, &options->norm, "rate", 0, 0, "NORM",
		  "compare by rate, or by share of each side's total" },
		{ "per", 0, CONFIG_STRING, &options->per, "auto", 0, 0, "LABEL",
		  "what a rate is per: auto, none, or a label" },
		{ "sort", 0, CONFIG_STRING, &options->sort, "self", 0, 0, "VALUE",
		  "compare and sort by self or total" },
		{ "only", 0, CONFIG_STRING, &options->only, NULL, 0, 0, "WORDS",
		  "functions that are new, gone, grown or shrunk (with commas)" },
		{ "all", 'a', CONFIG_BOOL, &options->all, NULL, 0, 0, NULL,
		  "also changes that are not significant" },
		{ "idle", 0, CONFIG_BOOL, &options->idle, NULL, 0, 0, NULL,
		  "include idle off-CPU time" },
		{ "limit", 'n', CONFIG_UINT, &options->limit, "40", 1, FUNCTIONS_MAX, "N",
		  "rows of the table" },
		{ "output", 'o', CONFIG_STRING, &options->output, NULL, 0, 0, "FILE",
		  "write stacks with both values to FILE (.collapsed); -: to standard output" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
	};
	char words[PROFILE_TYPE_WORDS_BYTES], notes[NOTES_BYTES];
	const struct config_program program = {
		.name = "cairn diff",
		.summary = "Compare the profile of the series that SELECTOR matches with a "
			   "baseline.",
		.usage = "cairn diff [SELECTOR] [--from TIME] [--to TIME] [--against BASELINE]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;

	profile_type_words(words, sizeof(words), HELP_COLUMNS);
	snprintf(notes, sizeof(notes), notes_format, words);
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);
	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	return api_request_set_selector(&options->request, argc - first_word, argv + first_word,
					err);
}

static void options_deinit(struct diff_options *options)
{
	api_request_deinit(&options->request);
	free(options->against);
	free(options->against_from);
	free(options->against_to);
	free(options->type_text);
	free(options->norm);
	free(options->per);
	free(options->sort);
	free(options->only);
	free(options->output);
	free(options->busy_selectors[0]);
	free(options->busy_selectors[1]);
}

// ---- the command line ----------------------------------------------------------------------------------

static int check_choice(const char *flag, const char *text, const char *first, const char *second,
			struct error *err)
{
	if (strcmp(text, first) == 0 || strcmp(text, second) == 0)
		return 0;
	return error_set(err, -EINVAL, "%s: \"%.40s\" is neither %s nor %s", flag, text, first,
			 second);
}

/* A duration, "rest", or else a selector. */
static int read_against(struct diff_options *options, struct error *err)
{
	const char *text = options->against;
	bool has_times = options->against_from || options->against_to;
	uint64_t ignored;

	if (has_times && !(options->against_from && options->against_to))
		return error_set(err, -EINVAL, "--against-from and --against-to go together");
	if (!text)
		return 0;
	if (strcmp(text, "rest") == 0 && !has_times)
		return error_set(err, -EINVAL,
				 "--against rest: needs --against-from and --against-to");
	if (strcmp(text, "rest") == 0 || !duration_parse(text, &ignored))
		options->against_time = text;
	else
		options->against_selector = text;
	if (options->against_time && strcmp(text, "rest") != 0 && has_times)
		return error_set(err, -EINVAL,
				 "--against %.20s and --against-from both say when: give one",
				 text);
	return 0;
}

/* As cairn query does: a selector that names the label wait is used as it is. */
static char *without_idle(const struct diff_options *options, const char *selector)
{
	const struct profile_type_spec *spec = profile_type_spec(options->type);

	if (options->idle || !selector || !spec || !profile_type_spec_has_label(spec, LABEL_WAIT) ||
	    selector_text_names(selector, LABEL_WAIT))
		return NULL;
	return selector_text_with(selector, LABEL_WAIT "!=\"idle\"");
}

static int check_stacks(const struct diff_options *options, struct error *err)
{
	const struct profile_type_spec *spec = profile_type_spec(options->type);

	if (!spec || !spec->no_stacks || profile_type_is_gauge(options->type))
		return 0;
	return error_set(err, -EINVAL, "--type %s: it has no stacks to compare",
			 options->type_text);
}

static int check(struct diff_options *options, struct error *err)
{
	enum export_suffix { SUFFIX_BYTES = sizeof(".collapsed") - 1 };
	struct error cause = { 0 };
	int rc = api_request_check(&options->request, err);

	if (!rc && profile_type_of_text(options->type_text, &options->type, &cause))
		rc = error_set(err, -EINVAL, "--type: %s", cause.text);
	if (!rc)
		rc = check_stacks(options, err);
	if (!rc)
		rc = read_against(options, err);
	if (!rc)
		rc = check_choice("--norm", options->norm, "rate", "share", err);
	if (!rc)
		rc = check_choice("--sort", options->sort, "self", "total", err);
	if (!rc)
		rc = diff_only_check(options->only, err);
	bool is_file = options->output && !output_is_standard(options->output);
	if (!rc && is_file)
		rc = output_file_check_name(options->output, err);
	size_t size = options->output ? strlen(options->output) : 0;
	if (!rc && is_file &&
	    (size <= SUFFIX_BYTES ||
	     strcmp(options->output + size - SUFFIX_BYTES, ".collapsed") != 0))
		rc = error_set(err, -EINVAL, "-o: %.200s: a diff is written as .collapsed",
			       options->output);
	if (!rc && options->output && options->json)
		rc = error_set(err, -EINVAL, "--json and -o cannot be combined");
	if (rc)
		return rc;
	options->busy_selectors[0] = without_idle(options, options->against_selector);
	options->busy_selectors[1] = without_idle(options, options->request.selector);
	return 0;
}

// ---- the answer -------------------------------------------------------------------------------------------

static void build_url(const struct diff_options *options, struct buffer *url)
{
	struct api_request asked = options->request;
	const char *baseline =
		options->busy_selectors[0] ? options->busy_selectors[0] : options->against_selector;
	char limit[24];

	if (options->busy_selectors[1])
		asked.selector = options->busy_selectors[1];
	snprintf(limit, sizeof(limit), "%d", FUNCTIONS_MAX); // what is shown of them is chosen here
	if (options->json)
		snprintf(limit, sizeof(limit), "%llu", (unsigned long long)options->limit);
	api_request_begin_url(&asked, "/api/v1/diff", url);
	http_append_parameter(url, "type", options->type);
	http_append_parameter(url, "against", options->against_time);
	http_append_parameter(url, "against_query", baseline);
	http_append_parameter(url, "against_from", options->against_from);
	http_append_parameter(url, "against_to", options->against_to);
	http_append_parameter(url, "norm", options->norm);
	http_append_parameter(url, "per", options->per);
	if (options->output) {
		http_append_parameter(url, "format", "collapsed");
		return;
	}
	http_append_parameter(url, "sort", options->sort);
	http_append_parameter(url, "limit", limit);
	if (!options->json)
		http_append_parameter(url, "max_nodes", "1");
}

/* Why a side has no samples. Returns -ENODATA, or 0: it has some. */
static int explain_empty(const struct diff_options *options, const json_t *root, const char *side,
			 struct error *err)
{
	const json_t *object = json_object_get(root, side);
	const json_t *ranges = json_object_get(object, "ranges_ns");
	struct api_request asked = options->request;
	struct error cause = { 0 };
	char from[24], to[24];

	if (json_integer_value(json_object_get(object, "total")))
		return 0;
	snprintf(from, sizeof(from), "%lld",
		 (long long)json_integer_value(json_array_get(json_array_get(ranges, 0), 0)));
	snprintf(to, sizeof(to), "%lld",
		 (long long)json_integer_value(
			 json_array_get(json_array_get(ranges, json_array_size(ranges) - 1), 1)));
	asked.from = from;
	asked.to = to;
	asked.selector = json_text_of(object, "query");
	if (!no_match_ask(&asked, options->type, &cause))
		error_set(&cause, -ENODATA, "no samples");
	return error_set(err, -ENODATA, "%s: %s",
			 *side == 'a' ? "nothing to compare with" : "nothing to compare",
			 cause.text);
}

static int print_table(const struct diff_options *options, const json_t *root, struct error *err)
{
	const char *no_color = getenv("NO_COLOR");
	const struct diff_choice choice = {
		.by_total = strcmp(options->sort, "total") == 0,
		.all = options->all,
		.only = options->only,
		.rows_max = (uint32_t)options->limit,
		.colour = isatty(STDOUT_FILENO) && !(no_color && *no_color),
	};
	uint32_t significant;
	int rc = diff_table_print(root, &choice, stdout, &significant);

	return rc ? error_set(err, rc, "%s did not answer with a diff; is it a cairn-collector?",
			      options->request.collector_http)
		  : 0;
}

static int show(const struct diff_options *options, const struct http_response *response,
		struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	int rc = 0;

	if (options->json)
		fwrite(response->body.bytes, 1, response->body.size, stdout);
	if (root && json_is_object(json_object_get(root, "b")))
		rc = explain_empty(options, root, "b", err);
	if (!rc && root)
		rc = explain_empty(options, root, "a", err);
	if (!rc && !options->json)
		rc = print_table(options, root, err);
	if (!rc && (fflush(stdout) || ferror(stdout)))
		rc = error_errno(err, -errno, "cannot write to standard output");
	json_decref(root);
	return rc;
}

static int write_file(const struct diff_options *options, const struct http_response *response,
		      struct output_file *file, struct error *err)
{
	int rc = response->body.size ? output_file_finish(file, &response->body, err)
				     : error_set(err, -ENODATA, "neither side has samples");

	if (!rc && !output_is_standard(options->output))
		fprintf(stderr, "wrote %s\n", options->output);
	return rc;
}

static int diff(const struct diff_options *options, struct error *err)
{
	_cleanup_(output_file_discard) struct output_file file = { 0 };
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	int rc = options->output ? output_file_open(options->output, &file, err) : 0;

	build_url(options, &url);
	if (!rc)
		rc = api_request_send(&options->request, &url, &response, err);
	if (rc)
		return rc;
	return options->output ? write_file(options, &response, &file, err)
			       : show(options, &response, err);
}

int cmd_diff(int argc, char **argv)
{
	_cleanup_(options_deinit) struct diff_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (!rc)
		rc = check(&options, &err);
	if (rc) {
		fprintf(stderr, "cairn diff: %s\n", err.text);
		return EXIT_USAGE;
	}
	rc = diff(&options, &err);
	return command_exit("cairn diff", rc, &err);
}
