// SPDX-License-Identifier: Apache-2.0
// cairn diagnose: get the bottleneck of a service from a collector, with its evidence.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/api_request.h"
#include "cli/no_match.h"
#include "cli/printable_text.h"

#define SHARE_PERCENT_MIN 0.05 // less is printed as 0.0

struct diagnose_options {
	struct api_request request;
	bool json;
};

static const char notes[] =
	"SELECTOR is PromQL's: '{service=\"llm\", node!~\"test.*\"}', or a bare service\n"
	"name. TIME is now, now-5m, RFC 3339 (2026-11-21T10:00:00Z) or Unix\n"
	"seconds. A range of 30 s or more gives a confident verdict; for a latency spike pass\n"
	"the seconds of the spike.\n"
	"\n"
	"  cairn diagnose checkout\n"
	"  cairn diagnose '{service=\"llm\"}' --from now-1h --to now-50m\n";

static int parse(int argc, char **argv, struct diagnose_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		API_REQUEST_OPTIONS(&options->request),
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
	};
	const struct config_program program = {
		.name = "cairn diagnose",
		.summary = "Get the bottleneck of the threads that SELECTOR matches, and of "
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
	rc = api_request_set_selector(&options->request, argc - first_word, argv + first_word, err);
	return rc ? rc : api_request_check(&options->request, err);
}

// ---- the answer in words --------------------------------------------------------------------

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

	printf("\nGPU, and the threads that launch its work:\n");
	json_array_foreach(json_object_get(gpu, "figures"), i, figure)
	{
		print_value(figure);
		text_print(json_text_of(figure, "title"));
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
		text_print(json_text_of(share, "title"));
		printf(" (threshold %.0f %%)\n", percent_of(share, "threshold"));
	}
}

static void print_unknown(const json_t *gpu)
{
	const json_t *figure;
	size_t i;

	if (json_array_size(json_object_get(gpu, "unknown")))
		printf("\nUnknown, not part of the verdict:\n");
	json_array_foreach(json_object_get(gpu, "unknown"), i, figure)
	{
		printf("  - ");
		text_print(json_text_of(figure, "title"));
		printf(" (source: ");
		text_print(json_text_of(figure, "source"));
		printf(")\n");
	}
}

static void print_late(const json_t *gpu)
{
	const json_t *late = json_object_get(gpu, "late");

	if (!json_is_object(late))
		return;
	printf("\nOther ranks of the node wait for rank ");
	text_print(*json_text_of(late, "rank") ? json_text_of(late, "rank") : "?");
	printf(" of communicator ");
	text_print(json_text_of(late, "communicator"));
	if (*json_text_of(late, "node")) {
		printf(", on ");
		text_print(json_text_of(late, "node"));
	}
	printf(".\n");
}

static void print_gpu(const json_t *root)
{
	const json_t *gpu = json_object_get(root, "gpu");

	if (!json_is_object(gpu))
		return;
	// As the verdict it is printed already.
	if (strcmp(json_text_of(gpu, "class"), json_text_of(root, "class")) != 0) {
		printf("\nThe GPU: ");
		text_print(json_text_of(gpu, "title"));
		printf(" (confidence: ");
		text_print(json_text_of(gpu, "confidence"));
		printf(")\n");
	}
	if (json_is_true(json_object_get(gpu, "intermittent")))
		printf("\nOnly one half of the range shows this: it is intermittent.\n");
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

	// Shares of almost no time mean nothing.
	if (strcmp(json_text_of(root, "class"), "no_demand") == 0)
		return;
	json_array_foreach(json_object_get(root, "shares"), i, share)
	{
		bool is_throttling = strcmp(json_text_of(share, "class"), "throttled") == 0;

		if (percent_of(share, "share") < SHARE_PERCENT_MIN)
			continue;
		if (!any)
			printf("\nShares of the time that threads were not idle:\n");
		any = true;
		printf("  %5.1f %%  ", percent_of(share, "share"));
		text_print(json_text_of(share, "title"));
		printf(" (threshold %.0f %%%s)%s\n", percent_of(share, "threshold"),
		       is_throttling ? " of running and runnable time" : "",
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
		text_print(json_is_string(frame) ? json_string_value(frame) : "");
		printf("\n");
	}
	if (json_is_true(json_object_get(stack, "cut")))
		printf("    ...\n");
}

/* The news: "`matmul` takes 83 % of CPU time, called by `forward (serve.py:40)`." */
static void print_finding(const json_t *evidence)
{
	if (!*json_text_of(evidence, "finding"))
		return;
	text_print(json_text_of(evidence, "finding"));
	printf("\n");
}

static void print_evidence(const json_t *evidence)
{
	const json_t *stack;
	size_t i;

	if (!json_array_size(json_object_get(evidence, "stacks")))
		return;
	printf("\n");
	text_print(*json_text_of(evidence, "what") ? json_text_of(evidence, "what") : "Where");
	printf(", in ");
	text_print(json_text_of(evidence, "type"));
	if (*json_text_of(evidence, "wait")) {
		printf(", wait=");
		text_print(json_text_of(evidence, "wait"));
	}
	printf(" (leaf first):\n");
	// That of the first is printed below the verdict.
	if (*json_text_of(evidence, "what")) {
		printf("  ");
		print_finding(evidence);
	}
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

/* "Memory growth: 0.31 GiB/s instead of 0.00, for 2.1 s", and what carries it. */
static void print_changed(const json_t *root)
{
	const json_t *changed = json_object_get(root, "changed"), *spike;
	size_t i;

	if (json_array_size(changed))
		printf("\nOut of the usual range meanwhile (cairn spikes):\n");
	json_array_foreach(changed, i, spike)
	{
		printf("  ");
		text_print(json_text_of(spike, "title"));
		printf("\n    ");
		text_print(json_text_of(spike, "sentence"));
		printf("\n");
	}
	if (json_object_get(root, "changed_unknown")) {
		printf("\nWhat left the usual range is not known: ");
		text_print(json_text_of(root, "changed_unknown"));
		printf("\n");
	}
}

static void print_advice(const json_t *root)
{
	const json_t *sentence;
	size_t i;

	printf("\nNext steps:\n");
	json_array_foreach(json_object_get(root, "advice"), i, sentence)
	{
		printf("  - ");
		text_print(json_is_string(sentence) ? json_string_value(sentence) : "");
		printf("\n");
	}
}

static int print_verdict(const struct api_request *request, const struct http_response *response,
			 struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);

	if (!json_is_string(json_object_get(root, "title"))) {
		json_decref(root);
		return error_set(err, -EBADMSG,
				 "%s did not answer with a verdict; is it a cairn-collector?",
				 request->collector_http);
	}
	text_print(json_text_of(root, "title"));
	printf(" (confidence: ");
	text_print(json_text_of(root, "confidence"));
	printf(")\n");
	if (!json_is_true(json_object_get(json_object_get(root, "figures"), "has_wall_clock")) &&
	    strcmp(json_text_of(root, "class"), "no_data") != 0)
		printf("The agents recorded CPU time only: off-CPU time is unknown.\n");
	if (!*json_text_of(json_object_get(root, "evidence"), "what"))
		print_finding(json_object_get(root, "evidence"));
	print_changed(root);
	print_gpu(root);
	print_shares(root);
	print_all_evidence(root);
	print_advice(root);
	json_decref(root);
	return 0;
}

static bool is_verdict_of_nothing(const struct http_response *response)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	bool is_nothing = strcmp(json_text_of(root, "class"), "no_data") == 0;

	json_decref(root);
	return is_nothing;
}

static int diagnose(const struct diagnose_options *options, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };

	api_request_begin_url(&options->request, "/api/v1/diagnose", &url);
	int rc = api_request_send(&options->request, &url, &response, err);
	if (rc)
		return rc;
	if (is_verdict_of_nothing(&response))
		rc = no_match_ask(&options->request, NULL, err);
	if (options->json)
		fwrite(response.body.bytes, 1, response.body.size, stdout);
	else if (!rc)
		rc = print_verdict(&options->request, &response, err);
	if (!rc && (fflush(stdout) || ferror(stdout)))
		rc = error_errno(err, -errno, "cannot write to standard output");
	return rc;
}

static void options_deinit(struct diagnose_options *options)
{
	api_request_deinit(&options->request);
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
	return command_exit("cairn diagnose", rc, &err);
}
