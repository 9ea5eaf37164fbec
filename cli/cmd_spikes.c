// SPDX-License-Identifier: Apache-2.0
// cairn spikes: when services left their usual range, and what explains it, from a collector.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/contract/profile_type.h"
#include "cli/api_request.h"
#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/no_match.h"
#include "cli/printable_text.h"
#include "cli/spike_command.h"

enum { LIMIT_MAX = 100, TIME_TEXT_BYTES = 40 };

struct spikes_options {
	struct api_request request;
	char *type_text;  // a word, or five parts; NULL: all
	const char *type; // in five parts
	uint64_t min_ns;
	uint64_t limit;
	bool json;
};

static const char notes[] =
	"Finds intervals in which a service used more than it usually does: CPU time,\n"
	"blocked time by wait class, run queue, throttling, memory growth, GPU. The half hour to\n"
	"hour before is the usual range. The first spike has the largest size times surprise;\n"
	"indented ones are of the same service at the same time, or of services that it kept\n"
	"from running. Each has the command that shows its stacks; the first has its page, too.\n"
	"\n"
	"SELECTOR is PromQL's: '{service=\"llm\", node!~\"test.*\"}', or a bare service\n"
	"name. TIME is now, now-5m, RFC 3339 (2026-11-21T10:00:00Z) or Unix seconds.\n"
	"\n"
	"  cairn spikes\n"
	"  cairn spikes checkout --from now-1h\n"
	"  cairn spikes '{service=\"llm\"}' --type off-cpu --min 1s\n";

static int parse(int argc, char **argv, struct spikes_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		API_REQUEST_OPTIONS(&options->request),
		{ "type", 't', CONFIG_STRING, &options->type_text, NULL, 0, 0, "TYPE",
		  "this profile type only: cpu, off-cpu, run-queue, throttled, memory, ..." },
		{ "min", 0, CONFIG_DURATION, &options->min_ns, "200ms", 10 * NS_PER_MS,
		  24 * 3600 * NS_PER_SECOND, "TIME",
		  "minimum size of a spike in thread time (1 GiB of memory growth counts 0.25 s)" },
		{ "limit", 'n', CONFIG_UINT, &options->limit, "20", 1, LIMIT_MAX, "N",
		  "number of spikes" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
	};
	const struct config_program program = {
		.name = "cairn spikes",
		.summary = "Find when services that SELECTOR matches left their usual range, and "
			   "what explains it.",
		.usage = "cairn spikes [SELECTOR] [--from TIME] [--to TIME]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (options->type_text)
		rc = profile_type_of_text(options->type_text, &options->type, err);
	if (!rc)
		rc = api_request_set_selector(&options->request, argc - first_word,
					      argv + first_word, err);
	return rc ? rc : api_request_check(&options->request, err);
}

/** "2026-11-28T14:02:31.24Z": what --from takes. */
static const char *moment_text(uint64_t ns, char text[TIME_TEXT_BYTES])
{
	time_t seconds = (time_t)(ns / NS_PER_SECOND);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(text, TIME_TEXT_BYTES - 4, "%FT%T", &tm))
		return "?";
	size_t size = strlen(text);

	snprintf(text + size, TIME_TEXT_BYTES - size, ".%02uZ",
		 (unsigned int)(ns % NS_PER_SECOND / (10 * NS_PER_MS)));
	return text;
}

static unsigned long long uint_of(const json_t *object, const char *key)
{
	return (unsigned long long)json_integer_value(json_object_get(object, key));
}

static void print_line(const char *indent, const char *text)
{
	if (!*text)
		return;
	fputs(indent, stdout);
	text_print(text);
	printf("\n");
}

/** Where to look next: the command, and of the first the page. */
static void print_next(const struct spikes_options *options, const json_t *spike, bool is_first,
		       const char *indent)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	char from[TIME_TEXT_BYTES], to[TIME_TEXT_BYTES];

	spike_command_append(&text, spike, moment_text(uint_of(spike, "from_ns"), from),
			     moment_text(uint_of(spike, "to_ns"), to),
			     options->request.collector_http);
	print_line(indent, buffer_string(&text));
	if (!is_first)
		return;
	buffer_clear(&text);
	api_request_append_page(&options->request, json_text_of(spike, "path"), &text);
	print_line(indent, buffer_string(&text));
}

/** @first: of its incident. */
static void print_spike(const struct spikes_options *options, const json_t *spike,
			const json_t *first)
{
	const char *service = json_text_of(spike, "service"), *indent = "  ", *below = "    ";
	char time_text[TIME_TEXT_BYTES];

	if (spike == first) {
		printf("%s  ", moment_text(uint_of(spike, "from_ns"), time_text));
		print_line("", *service ? service : "(no service)");
	} else {
		indent = below;
		below = "      ";
		if (strcmp(service, json_text_of(first, "service")) != 0)
			print_line("  ", service);
	}
	print_line(indent, json_text_of(spike, "title"));
	print_line(below, json_text_of(spike, "sentence"));
	print_next(options, spike, spike == first, below);
}

/** A spike with the others of its incident, those of its own service before others. */
static void print_incident(const struct spikes_options *options, const json_t *spikes, size_t at)
{
	const json_t *first = json_array_get(spikes, at), *spike;
	size_t i;

	print_spike(options, first, first);
	for (int is_other = 0; is_other < 2; is_other++) {
		json_array_foreach(spikes, i, spike)
		{
			bool differs = strcmp(json_text_of(spike, "service"),
					      json_text_of(first, "service")) != 0;

			if (i != at && uint_of(spike, "incident") == at && differs == is_other)
				print_spike(options, spike, first);
		}
	}
}

static void print_notes(const json_t *root)
{
	unsigned long long found = uint_of(root, "found");
	unsigned long long shown = json_array_size(json_object_get(root, "spikes"));

	if (found > shown)
		printf("note: %llu smaller spikes are not shown: --limit\n", found - shown);
	if (uint_of(root, "usual_at_time"))
		printf("note: %llu are not shown: yesterday or a week ago it was as much at "
		       "this time\n",
		       uint_of(root, "usual_at_time"));
	if (uint_of(root, "not_judged"))
		printf("note: %llu services ran for too short a time to know what is "
		       "usual\n",
		       uint_of(root, "not_judged"));
	if (uint_of(root, "left_out"))
		printf("note: %llu series are beyond what one query judges: use a narrower "
		       "selector\n",
		       uint_of(root, "left_out"));
}

static int print_spikes(const struct spikes_options *options, const struct http_response *response,
			struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	const json_t *spikes = json_object_get(root, "spikes"), *spike;
	size_t i;

	if (!json_is_array(spikes)) {
		json_decref(root);
		return error_set(err, -EBADMSG,
				 "%s did not answer with spikes; is it a cairn-collector?",
				 options->request.collector_http);
	}
	// Said of a service without data, it would reassure wrongly.
	int rc = json_array_size(spikes) ? 0 : no_match_ask(&options->request, NULL, err);

	if (!rc && !json_array_size(spikes))
		printf("No spikes: what ran long enough stayed in its usual range.\n");
	json_array_foreach(spikes, i, spike)
	{
		if (uint_of(spike, "incident") != i)
			continue;
		if (i)
			printf("\n");
		print_incident(options, spikes, i);
	}
	if (!rc)
		print_notes(root);
	json_decref(root);
	return rc;
}

static void append_options(const struct spikes_options *options, struct buffer *url)
{
	http_append_parameter(url, "type", options->type);
	buffer_printf(url, "&limit=%llu&min=%llums", (unsigned long long)options->limit,
		      (unsigned long long)(options->min_ns / NS_PER_MS));
}

static int ask(const struct spikes_options *options, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };

	api_request_begin_url(&options->request, "/api/v1/spikes", &url);
	append_options(options, &url);
	int rc = api_request_send(&options->request, &url, &response, err);
	if (rc)
		return rc;
	if (options->json)
		fwrite(response.body.bytes, 1, response.body.size, stdout);
	else
		rc = print_spikes(options, &response, err);
	if (!rc && (fflush(stdout) || ferror(stdout)))
		rc = error_errno(err, -errno, "cannot write to standard output");
	return rc;
}

static void options_deinit(struct spikes_options *options)
{
	api_request_deinit(&options->request);
	free(options->type_text);
}

int cmd_spikes(int argc, char **argv)
{
	_cleanup_(options_deinit) struct spikes_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (!rc)
		rc = ask(&options, &err);
	return command_exit("cairn spikes", rc, &err);
}
