// SPDX-License-Identifier: Apache-2.0
// cairn diagnose: ask a collector what holds a service up, in words with the evidence.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "cli/command.h"
#include "cli/function_table.h"
#include "cli/http_client.h"
#include "cli/question.h"

#define SHARE_PERCENT_MIN 0.05 // less is shown as 0.0

struct diagnose_options {
	struct question question;
	bool json;
};

static const char notes[] =
	"SELECTOR is as in PromQL: '{service=\"llm\", node!~\"test.*\"}', or a bare word\n"
	"for a service. TIME is now, now-5m, RFC 3339 (2026-11-21T10:00:00Z) or Unix\n"
	"seconds. Half a minute or more makes a verdict sure; a spike is best asked about\n"
	"by its own seconds.\n"
	"\n"
	"  cairn diagnose checkout\n"
	"  cairn diagnose '{service=\"llm\"}' --from now-1h --to now-50m\n";

static int parse(int argc, char **argv, struct diagnose_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		QUESTION_OPTIONS(&options->question),
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
	};
	const struct config_program program = {
		.name = "cairn diagnose",
		.summary = "Ask a collector what holds the threads up that SELECTOR selects, and "
			   "their GPU.",
		.usage = "cairn diagnose [SELECTOR] [--from TIME] [--to TIME]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	rc = question_take_selector(&options->question, argc - first_word, argv + first_word, err);
	return rc ? rc : question_check(&options->question, err);
}

// ---- the answer in words --------------------------------------------------------------------

// Names come from processes that nobody vouches for.
static void print_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return;
	text_make_printable(copy);
	fputs(copy, stdout);
	free(copy);
}

static double percent_of(const json_t *object, const char *key)
{
	return 100 * json_number_value(json_object_get(object, key));
}

// ---- the GPU --------------------------------------------------------------------------------

static void print_value(const json_t *figure)
{
	const char *unit = json_text_of(figure, "unit");
	double value = json_number_value(json_object_get(figure, "value"));

	if (strcmp(unit, "share") == 0)
		printf("  %7.1f %%     ", 100 * value);
	else if (strcmp(unit, "cores") == 0)
		printf("  %7.2f       ", value);
	else if (strcmp(unit, "per_second") == 0)
		printf("  %7.0f /s    ", value);
	else if (strcmp(unit, "bytes_per_second") == 0)
		printf("  %7.2f GB/s  ", value / 1e9);
	else if (strcmp(unit, "microseconds") == 0)
		printf("  %7.1f us    ", value);
	else
		printf("  %7.0f bytes ", value);
}

static void print_gpu_figures(const json_t *gpu)
{
	const json_t *figure;
	size_t i;

	printf("\nOf the GPU, and of the threads that launch its work:\n");
	json_array_foreach(json_object_get(gpu, "figures"), i, figure)
	{
		print_value(figure);
		print_text(json_text_of(figure, "title"));
		printf("\n");
	}
}

static void print_gpu_causes(const json_t *gpu)
{
	const json_t *share;
	size_t i;

	json_array_foreach(json_object_get(gpu, "shares"), i, share)
	{
		if (!json_is_true(json_object_get(share, "reached")))
			continue;
		printf("  %7.1f %% --> ", percent_of(share, "share"));
		print_text(json_text_of(share, "title"));
		printf(" (counts from %.0f %%)\n", percent_of(share, "threshold"));
	}
}

static void print_unknown(const json_t *gpu)
{
	const json_t *figure;
	size_t i;

	if (json_array_size(json_object_get(gpu, "unknown")))
		printf("\nNot known, and so not judged by:\n");
	json_array_foreach(json_object_get(gpu, "unknown"), i, figure)
	{
		printf("  - ");
		print_text(json_text_of(figure, "title"));
		printf(" (told by ");
		print_text(json_text_of(figure, "source"));
		printf(")\n");
	}
}

static void print_late(const json_t *gpu)
{
	const json_t *late = json_object_get(gpu, "late");

	if (!json_is_object(late))
		return;
	printf("\nOthers of its node wait for rank ");
	print_text(*json_text_of(late, "rank") ? json_text_of(late, "rank") : "?");
	printf(" of communicator ");
	print_text(json_text_of(late, "communicator"));
	if (*json_text_of(late, "node")) {
		printf(", on ");
		print_text(json_text_of(late, "node"));
	}
	printf(".\n");
}

static void print_gpu(const json_t *root)
{
	const json_t *gpu = json_object_get(root, "gpu");

	if (!json_is_object(gpu))
		return;
	// Where it is the verdict, it has been told.
	if (strcmp(json_text_of(gpu, "class"), json_text_of(root, "class")) != 0) {
		printf("\nThe GPU: ");
		print_text(json_text_of(gpu, "title"));
		printf(" (confidence: ");
		print_text(json_text_of(gpu, "confidence"));
		printf(")\n");
	}
	if (json_is_true(json_object_get(gpu, "passing")))
		printf("\nSo it was in one half of the range only: it comes and goes.\n");
	print_gpu_figures(gpu);
	print_gpu_causes(gpu);
	print_late(gpu);
	print_unknown(gpu);
}

// ---- threads --------------------------------------------------------------------------------

static void print_shares(const json_t *root)
{
	const json_t *share;
	bool any = false;
	size_t i;

	// Of hardly anything: what it was tells nothing.
	if (strcmp(json_text_of(root, "class"), "no_demand") == 0)
		return;
	json_array_foreach(json_object_get(root, "shares"), i, share)
	{
		bool is_throttling = strcmp(json_text_of(share, "class"), "throttled") == 0;

		if (percent_of(share, "share") < SHARE_PERCENT_MIN)
			continue;
		if (!any)
			printf("\nOf the time that threads had something to do:\n");
		any = true;
		printf("  %5.1f %%  ", percent_of(share, "share"));
		print_text(json_text_of(share, "title"));
		printf(" (counts from %.0f %%%s)%s\n", percent_of(share, "threshold"),
		       is_throttling ? ", of what threads ran or wanted to" : "",
		       json_is_true(json_object_get(share, "reached")) ? " <--" : "");
	}
}

static void print_stack(const json_t *stack)
{
	const json_t *frame;
	size_t i;

	printf("\n  %.0f %%:\n", percent_of(stack, "share"));
	json_array_foreach(json_object_get(stack, "frames"), i, frame)
	{
		printf("    ");
		print_text(json_is_string(frame) ? json_string_value(frame) : "");
		printf("\n");
	}
	if (json_is_true(json_object_get(stack, "cut")))
		printf("    ...\n");
}

static void print_evidence(const json_t *evidence)
{
	const json_t *stack;
	size_t i;

	if (!json_array_size(json_object_get(evidence, "stacks")))
		return;
	printf("\n");
	print_text(*json_text_of(evidence, "what") ? json_text_of(evidence, "what") : "Where");
	printf(", in ");
	print_text(json_text_of(evidence, "type"));
	if (*json_text_of(evidence, "wait")) {
		printf(", wait=");
		print_text(json_text_of(evidence, "wait"));
	}
	printf(" (innermost call first):\n");
	json_array_foreach(json_object_get(evidence, "stacks"), i, stack) print_stack(stack);
}

static void print_all_evidence(const json_t *root)
{
	const json_t *evidence;
	size_t i;

	print_evidence(json_object_get(root, "evidence"));
	json_array_foreach(json_object_get(root, "more_evidence"), i, evidence)
		print_evidence(evidence);
}

static void print_advice(const json_t *root)
{
	const json_t *sentence;
	size_t i;

	printf("\nWhat to try next:\n");
	json_array_foreach(json_object_get(root, "advice"), i, sentence)
	{
		printf("  - ");
		print_text(json_is_string(sentence) ? json_string_value(sentence) : "");
		printf("\n");
	}
}

static int print_verdict(const struct question *question, const struct http_response *response,
			 struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);

	if (!json_is_string(json_object_get(root, "title"))) {
		json_decref(root);
		return error_set(err, -EBADMSG, "%s answered with something else than a verdict",
				 question->collector_http);
	}
	print_text(json_text_of(root, "title"));
	printf(" (confidence: ");
	print_text(json_text_of(root, "confidence"));
	printf(")\n");
	if (!json_is_true(json_object_get(json_object_get(root, "figures"), "has_waits")) &&
	    strcmp(json_text_of(root, "class"), "no_data") != 0)
		printf("The agents recorded CPU time only: waits are not judged.\n");
	print_gpu(root);
	print_shares(root);
	print_all_evidence(root);
	print_advice(root);
	json_decref(root);
	return 0;
}

static int diagnose(const struct diagnose_options *options, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };

	question_begin_url(&options->question, "/api/v1/diagnose", &url);
	int rc = question_ask(&options->question, &url, &response, err);
	if (rc)
		return rc;
	if (options->json)
		fwrite(response.body.bytes, 1, response.body.size, stdout);
	else
		rc = print_verdict(&options->question, &response, err);
	if (!rc && (fflush(stdout) || ferror(stdout)))
		rc = error_errno(err, -errno, "cannot write to standard output");
	return rc;
}

static void options_deinit(struct diagnose_options *options)
{
	question_deinit(&options->question);
}

int cmd_diagnose(int argc, char **argv)
{
	_cleanup_(options_deinit) struct diagnose_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (!rc)
		rc = diagnose(&options, &err);
	if (!rc)
		return EXIT_OK;
	fprintf(stderr, "cairn diagnose: %s\n", err.text);
	return rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}
