// SPDX-License-Identifier: Apache-2.0
// cairn delete: delete what a collector has stored of some series.

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
#include "base/utc_text.h"
#include "cli/api_request.h"
#include "cli/command.h"
#include "cli/json_line.h"
#include "cli/no_match.h"

#define MINUTE_NS (60 * NS_PER_SECOND)

enum { ANSWER_BYTES = 16 };

struct delete_options {
	struct api_request request; // its times: as given, then whole minutes
	bool yes;
	bool dry_run;
	bool json;
};

/* What the collector says of a deletion. */
struct deletion {
	long long series, hours;
};

static const char notes[] =
	"SELECTOR is PromQL's: '{service=\"llm\", node=\"a17\"}', or a bare service name; '{}' is\n"
	"everything. TIME is now, now-5m, RFC 3339 (2026-11-21T10:00:00Z) or Unix seconds, widened "
	"to\n"
	"whole minutes. Without --from and --to everything stored goes. The role admin is needed;\n"
	"a credential for all tenants names one: '{tenant=\"shop\"}'.\n"
	"\n"
	"What is deleted is not shown any more from the answer on, and leaves the disk some "
	"seconds to\n"
	"minutes later. Batches that agents send afterwards are stored: stop them, or correct "
	"their\n"
	"labels, first. Older backups are not changed.\n"
	"\n"
	"  cairn delete '{tenant=\"shop\"}' --dry-run\n"
	"  cairn delete '{service=\"llm\", thread=~\"token=.*\"}' --from 2026-11-21T10:00:00Z "
	"--yes\n";

static int parse(int argc, char **argv, struct delete_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		API_REQUEST_OPTIONS_OF(&options->request, NULL, NULL),
		{ "yes", 'y', CONFIG_BOOL, &options->yes, NULL, 0, 0, NULL,
		  "delete without asking" },
		{ "dry-run", 0, CONFIG_BOOL, &options->dry_run, NULL, 0, 0, NULL,
		  "only count the series that would be deleted" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print a JSON object; with --yes or --dry-run" },
	};
	const struct config_program program = {
		.name = "cairn delete",
		.summary =
			"Delete what a collector has stored of the series that SELECTOR matches.",
		.usage = "cairn delete SELECTOR [--from TIME] [--to TIME] [--yes]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (first_word == argc || !*argv[first_word])
		return error_set(err, -EINVAL,
				 "SELECTOR is missing ('{}' is everything); see `cairn delete "
				 "--help`");
	return api_request_set_selector(&options->request, argc - first_word, argv + first_word,
					err);
}

/* Minutes are deleted whole: replace @text by the Unix second of the minute's begin, or its end. */
static int round_time(const char *flag, char **text, uint64_t now_ns, bool up, struct error *err)
{
	struct error cause = { 0 };
	char seconds[24];
	uint64_t ns;

	if (!*text)
		return 0;
	if (time_parse(*text, now_ns, &ns, &cause))
		return error_set(err, -EINVAL, "%s: %s", flag, cause.text);
	ns = (ns + (up ? MINUTE_NS - 1 : 0)) / MINUTE_NS * MINUTE_NS;
	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(ns / NS_PER_SECOND));
	free(*text);
	*text = strdup(seconds);
	return *text ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int check(struct delete_options *options, struct error *err)
{
	struct api_request *request = &options->request;
	uint64_t now_ns = clock_realtime_ns();
	int rc = round_time("--from", &request->from, now_ns, false, err);

	if (!rc)
		rc = round_time("--to", &request->to, now_ns, true, err);
	if (!rc && request->from && request->to &&
	    strtoull(request->from, NULL, 10) >= strtoull(request->to, NULL, 10))
		rc = error_set(err, -EINVAL, "--from is not before --to");
	if (!rc && options->json && !options->yes && !options->dry_run)
		rc = error_set(err, -EINVAL, "--json asks nothing: it needs --yes or --dry-run");
	if (!rc && !options->yes && !options->dry_run && !isatty(STDIN_FILENO))
		rc = error_set(err, -EINVAL,
			       "it would ask, but standard input is not a terminal; --yes deletes "
			       "without asking, --dry-run only counts");
	return rc;
}

static int ask_collector(const struct delete_options *options, bool dry_run,
			 struct deletion *ret_deletion, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };

	api_request_begin_url(&options->request, "/api/v1/series", &url);
	if (dry_run)
		http_append_parameter(&url, "dry_run", "true");
	int rc = api_request_send_deletion(&options->request, &url, &response, err);
	if (rc)
		return rc;
	json_t *root = json_loadb((const char *)response.body.bytes, response.body.size, 0, NULL);
	const json_t *series = json_object_get(root, "series");
	if (!json_is_integer(series))
		rc = error_set(err, -EBADMSG, "%s did not answer as a cairn-collector does",
			       options->request.collector_http);
	ret_deletion->series = json_integer_value(series);
	ret_deletion->hours = json_integer_value(json_object_get(root, "partitions"));
	json_decref(root);
	return rc;
}

/* Of the newest data, which the collector lists without a range of the user's. */
static int explain_no_series(const struct delete_options *options, struct error *err)
{
	struct api_request request = options->request;

	request.from = request.from ? request.from : (char *)"now-31d";
	request.to = request.to ? request.to : (char *)"now";
	no_match_ask(&request, NULL, err);
	return *err->text ? -ENODATA : error_set(err, -ENODATA, "no series match");
}

static const char *time_text(const char *seconds, const char *absent, char text[UTC_TEXT_BYTES])
{
	return seconds ? utc_text(strtoull(seconds, NULL, 10), text) : absent;
}

static bool is_confirmed(const struct delete_options *options, long long series)
{
	char from[UTC_TEXT_BYTES], to[UTC_TEXT_BYTES], answer[ANSWER_BYTES] = "";

	printf("Delete %lld series of %s, from %s to %s, at %s? [y/N] ", series,
	       options->request.selector, time_text(options->request.from, "the beginning", from),
	       time_text(options->request.to, "now", to), options->request.collector_http);
	fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) && (*answer == 'y' || *answer == 'Y');
}

static void print_deletion(const struct delete_options *options, const struct deletion *deletion)
{
	if (options->json)
		json_line_print(json_pack("{s:I, s:I, s:b}", "series", (json_int_t)deletion->series,
					  "hours", (json_int_t)deletion->hours, "dry_run",
					  options->dry_run));
	else if (options->dry_run)
		printf("%lld series would be deleted\n", deletion->series);
	else
		printf("deleted %lld series, in %lld hours of profiles\n", deletion->series,
		       deletion->hours);
}

static int delete_series(const struct delete_options *options, struct error *err)
{
	struct deletion deletion = { 0 };
	int rc = 0;

	if (options->dry_run || !options->yes) {
		rc = ask_collector(options, true, &deletion, err);
		if (rc)
			return rc;
		if (!deletion.series)
			return explain_no_series(options, err);
		if (options->dry_run) {
			print_deletion(options, &deletion);
			return 0;
		}
		if (!is_confirmed(options, deletion.series))
			return error_set(err, -ECANCELED, "nothing was deleted");
	}
	rc = ask_collector(options, false, &deletion, err);
	if (!rc && !deletion.series)
		rc = explain_no_series(options, err);
	if (!rc)
		print_deletion(options, &deletion);
	return rc;
}

int cmd_delete(int argc, char **argv)
{
	struct delete_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_RUN)
		rc = check(&options, &err);
	if (!rc && outcome == CONFIG_RUN)
		rc = delete_series(&options, &err);
	api_request_deinit(&options.request);
	return command_exit("cairn delete", rc, &err);
}
