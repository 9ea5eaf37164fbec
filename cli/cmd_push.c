// SPDX-License-Identifier: Apache-2.0
// cairn push: send files of other profilers to a collector.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/config/config_quantity.h"
#include "base/contract/profile_type.h"
#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/json_line.h"
#include "cli/push_file.h"

struct push_flags {
	char *collector_http, *service, *type, *at;
	struct labels labels;
	uint64_t hz, timeout_ns;
	struct http_security security;
	bool json;
	int first_file;
};

#define MOMENT_NS (20 * NS_PER_MS) // a slot: the file has no times

enum { HZ_MAX = 1000000, GROUPED_BYTES = 32 };

static const char notes[] =
	"FILE is a profile of pprof, perf script, collapsed stacks, speedscope, py-spy, Austin\n"
	"or torch.profiler (a Chrome trace), gzip or not; - is standard input. Its content says\n"
	"which. Samples keep their times where the file has them. The same file counts once.\n"
	"\n"
	"  cairn push --service shop cpu.pb.gz\n"
	"  perf script | cairn push --service shop -\n"
	"  py-spy record -f speedscope -o spy.json -p 1234 && cairn push spy.json\n"
	"  cairn push --service shop --hz 99 --label env=prod out.collapsed\n";

static int parse(int argc, char **argv, struct push_flags *flags, enum config_outcome *ret_outcome,
		 struct error *err)
{
	const struct config_option table[] = {
		{ "service", 0, CONFIG_STRING, &flags->service, NULL, 0, 0, "NAME",
		  "label service of the samples; default: the file's name up to its first dot" },
		{ "label", 0, CONFIG_LABELS, &flags->labels, NULL, 0, 0, "NAME=VALUE",
		  "label of the samples; may be repeated" },
		{ "type", 0, CONFIG_STRING, &flags->type, NULL, 0, 0, "TYPE",
		  "profile type, as a word (cpu, off-cpu ...) or in five parts; default: from the "
		  "file" },
		{ "at", 0, CONFIG_STRING, &flags->at, NULL, 0, 0, "TIME",
		  "when the profile began (now-1h, 2026-11-21T10:00:00Z, Unix seconds); default: "
		  "from the file, or so that it ended when the file was written" },
		{ "hz", 0, CONFIG_UINT, &flags->hz, "0", 0, HZ_MAX, "N",
		  "samples of collapsed stacks and cycles are CPU time of 1/N s; 0: counts" },
		{ "collector-http", 0, CONFIG_STRING, &flags->collector_http,
		  "http://127.0.0.1:7070", 0, 0, "URL", "address of the collector's HTTP API" },
		{ "timeout", 0, CONFIG_DURATION, &flags->timeout_ns, "60s", 100 * NS_PER_MS,
		  3600 * NS_PER_SECOND, "TIME", "time limit of each request" },
		HTTP_SECURITY_OPTIONS(&flags->security),
		{ "json", 0, CONFIG_BOOL, &flags->json, NULL, 0, 0, NULL,
		  "print a JSON object per file" },
	};
	const struct config_program program = {
		.name = "cairn push",
		.summary = "Send profiles of other profilers to a collector.",
		.usage = "cairn push [OPTIONS] FILE...",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int rc = config_parse(&program, argc, argv, ret_outcome, &flags->first_file, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (flags->first_file >= argc)
		return error_set(err, -EINVAL, "FILE is missing; see `cairn push --help`");
	return 0;
}

static int make_options(const struct push_flags *flags, struct push_options *ret_options,
			struct error *err)
{
	struct push_options options = {
		.collector_http = flags->collector_http,
		.security = &flags->security,
		.timeout_ms = (uint32_t)(flags->timeout_ns / NS_PER_MS),
		.service = flags->service,
		.labels = &flags->labels,
		.hz = (uint32_t)flags->hz,
	};
	int rc = flags->type ? profile_type_of_text(flags->type, &options.type, err) : 0;

	if (!rc && flags->at)
		rc = time_parse(flags->at, clock_realtime_ns(), &options.at_ns, err);
	if (!rc)
		*ret_options = options;
	return rc;
}

/** "12,345". */
static const char *group_digits(uint64_t number, char text[GROUPED_BYTES])
{
	char digits[GROUPED_BYTES];
	int size = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number), at = 0;

	for (int i = 0; i < size; i++) {
		if (i && (size - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

static void print_result(const char *path, bool has_more_files, const struct push_result *result)
{
	char samples[GROUPED_BYTES], span[GROUPED_BYTES] = "";
	uint64_t span_ns = result->to_ns - result->from_ns;

	if (has_more_files)
		printf("%s: ", path);
	if (span_ns > MOMENT_NS)
		snprintf(span, sizeof(span), ", %.1f s", (double)span_ns / NS_PER_SECOND);
	printf("%s %s samples of %u profile type%s%s%s\n", result->duplicate ? "had" : "pushed",
	       group_digits(result->samples, samples), result->types, result->types == 1 ? "" : "s",
	       span, result->duplicate ? ", from an earlier push; nothing was stored twice" : "");
	if (*result->note)
		fprintf(stderr, "cairn push: %s: %s\n", path, result->note);
}

static void print_json(const char *path, const struct push_result *result)
{
	json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:s}", "file", path,
				   "format", result->format, "samples", (json_int_t)result->samples,
				   "types", (json_int_t)result->types, "from_ns",
				   (json_int_t)result->from_ns, "to_ns", (json_int_t)result->to_ns,
				   "refused", (json_int_t)result->refused, "duplicate",
				   result->duplicate, "note", result->note);

	json_line_print(object);
}

static int push_all(const struct push_options *options, bool json, int count, char **paths)
{
	int exit_code = EXIT_OK;

	for (int i = 0; i < count; i++) {
		struct push_result result;
		struct error err = { 0 };

		if (push_file(options, paths[i], &result, &err)) {
			fprintf(stderr, "cairn push: %s: %s\n", paths[i], err.text);
			exit_code = EXIT_FAILED;
			continue;
		}
		if (json)
			print_json(paths[i], &result);
		else
			print_result(paths[i], count > 1, &result);
	}
	return exit_code;
}

int cmd_push(int argc, char **argv)
{
	struct push_flags flags = { .first_file = argc };
	enum config_outcome outcome = CONFIG_RUN;
	struct push_options options;
	struct error err = { 0 };
	int exit_code = EXIT_OK;
	int rc = parse(argc, argv, &flags, &outcome, &err);

	if (!rc && outcome == CONFIG_RUN)
		rc = make_options(&flags, &options, &err);
	if (rc) {
		fprintf(stderr, "cairn push: %s\n", err.text);
		exit_code = EXIT_USAGE;
	} else if (outcome == CONFIG_RUN) {
		exit_code = push_all(&options, flags.json, argc - flags.first_file,
				     argv + flags.first_file);
	}
	free(flags.collector_http);
	free(flags.service);
	free(flags.type);
	free(flags.at);
	labels_deinit(&flags.labels);
	http_security_deinit(&flags.security);
	return exit_code;
}
