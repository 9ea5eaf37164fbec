// SPDX-License-Identifier: Apache-2.0
// cairn status: a collector, and the agents that send it profiles.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/config/config.h"
#include "base/utc_text.h"
#include "base/utf8.h"
#include "cli/api_request.h"
#include "cli/command.h"

enum {
	NODE_COLUMNS_MIN = 4,
	NODE_COLUMNS_MAX = 60,
	NODE_BYTES = 256,
	VERSION_BYTES = 64,
	AGE_BYTES = 32
};

struct status_options {
	struct api_request request;
	bool json;
	bool silent_only;
};

static const char notes[] =
	"An agent is silent when it has sent no batch for a minute. The "
	"collector knows the agents\n"
	"that sent something since it was started. A row is the time of one stack of one series "
	"in 20 ms:\n"
	"all profile types count.\n"
	"\n"
	"  cairn status\n"
	"  cairn status --silent --collector-http https://cairn.example:7070\n";

static int parse(int argc, char **argv, struct status_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "collector-http", 0, CONFIG_STRING, &options->request.collector_http,
		  "http://127.0.0.1:7070", 0, 0, "URL", "where the collector answers" },
		{ "timeout", 0, CONFIG_DURATION, &options->request.timeout_ns, "60s",
		  100 * NS_PER_MS, 3600 * NS_PER_SECOND, "TIME", "time limit of the request" },
		HTTP_SECURITY_OPTIONS(&options->request.security),
		{ "silent", 0, CONFIG_BOOL, &options->silent_only, NULL, 0, 0, NULL,
		  "list silent agents only; the exit status is 1 if there are any" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
	};
	const struct config_program program = {
		.name = "cairn status",
		.summary = "Show a collector, its agents, their versions, and which went silent.",
		.usage = "cairn status [--silent] [--json]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT || first_word == argc)
		return rc;
	return error_set(err, -EINVAL, "\"%.60s\" is not a setting; see `cairn status --help`",
			 argv[first_word]);
}

static int get(const struct api_request *request, const char *path, struct http_response *response,
	       json_t **ret_json, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	size_t length = strlen(request->collector_http);
	json_error_t wrong;

	while (length && request->collector_http[length - 1] == '/')
		length--;
	buffer_append(&url, request->collector_http, length);
	buffer_append_string(&url, path);
	int rc = api_request_send(request, &url, response, err);
	if (rc)
		return rc;
	*ret_json = json_loadb((const char *)response->body.bytes, response->body.size, 0, &wrong);
	if (*ret_json)
		return 0;
	error_set(err, -EBADMSG, "%s: the answer is no JSON: %s", path, wrong.text);
	utf8_clean(err->text); // it quotes the answer
	return -EBADMSG;
}

static uint64_t number_of(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));

	return number > 0 ? (uint64_t)number : 0;
}

/* "3 s", "14 min", "2.5 h", "6 days". */
static const char *age_text(uint64_t ns, char text[AGE_BYTES])
{
	double seconds = (double)ns / NS_PER_SECOND;

	if (seconds < 120)
		snprintf(text, AGE_BYTES, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(text, AGE_BYTES, "%.0f min", seconds / 60);
	else if (seconds < 2 * 86400)
		snprintf(text, AGE_BYTES, "%.1f h", seconds / 3600);
	else
		snprintf(text, AGE_BYTES, "%.0f days", seconds / 86400);
	return text;
}

static bool is_silent(const json_t *agent)
{
	return strcmp(json_text_of(agent, "state"), "silent") == 0;
}

static uint32_t count_silent(const json_t *agents)
{
	uint32_t count = 0;
	const json_t *agent;
	size_t i;

	json_array_foreach(agents, i, agent) count += is_silent(agent);
	return count;
}

static const char *node_of(const json_t *agent)
{
	const char *node = json_text_of(agent, "node");

	return *node ? node : json_text_of(agent, "agent");
}

static void print_agent(const json_t *agent, uint64_t now_ns, int columns)
{
	uint64_t first_ns = number_of(agent, "first_ns"), last_ns = number_of(agent, "last_ns");
	char node[NODE_BYTES], version[VERSION_BYTES], last[AGE_BYTES], runs[AGE_BYTES];
	uint64_t batches = number_of(agent, "batches");
	// From the first batch to the last, and what the first one covers.
	double seconds = batches < 2 ? 0
				     : (double)ns_between(first_ns, last_ns) / NS_PER_SECOND *
					       (double)batches / (double)(batches - 1);

	snprintf(node, sizeof(node), "%s", node_of(agent));
	json_word_of(agent, "version", version, sizeof(version));
	utf8_clean(node);
	printf("%-*.*s  %-9.9s %-8s %9s ago %9s %9llu ", columns, columns, node, version,
	       is_silent(agent) ? "silent" : "sending", age_text(ns_between(last_ns, now_ns), last),
	       age_text(ns_between(first_ns, now_ns), runs), (unsigned long long)batches);
	if (seconds >= 1)
		printf("%12.1f\n", (double)number_of(agent, "samples") / seconds);
	else
		printf("%12s\n", "-");
}

static void print_agents(const json_t *agents, uint64_t now_ns, bool silent_only)
{
	int columns = NODE_COLUMNS_MIN;
	const json_t *agent;
	size_t i;

	json_array_foreach(agents, i, agent)
	{
		int length = (int)strlen(node_of(agent));

		columns = length > columns ? length : columns;
	}
	columns = columns < NODE_COLUMNS_MAX ? columns : NODE_COLUMNS_MAX;
	if (!json_array_size(agents) || (silent_only && !count_silent(agents)))
		return;
	printf("\n%-*s  %-9s %-8s %13s %9s %9s %12s\n", columns, "NODE", "VERSION", "STATE",
	       "LAST BATCH", "SINCE", "BATCHES", "ROWS/S");
	json_array_foreach(agents, i, agent)
	{
		if (!silent_only || is_silent(agent))
			print_agent(agent, now_ns, columns);
	}
	if (count_silent(agents))
		puts("\nsilent: see the agent's log on that node, or ask /readyz of its "
		     "--admin; "
		     "a node that was retired is listed until the collector restarts");
}

/* What limits of tenants have refused: of the reader's tenant, or of all. */
static void print_limits(const json_t *limits, uint64_t now_ns)
{
	static const char *const keys[] = { "tenant", "limit", "value", "set_in" };
	const json_t *refusal;
	size_t i;

	if (json_array_size(limits))
		printf("\n%-20s %-18s %-12s %9s %13s  %s\n", "TENANT", "LIMIT", "VALUE", "REFUSED",
		       "LAST", "SET IN");
	json_array_foreach(limits, i, refusal)
	{
		char texts[ARRAY_SIZE(keys)][NODE_BYTES], last[AGE_BYTES];

		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			json_word_of(refusal, keys[k], texts[k], NODE_BYTES);
		printf("%-20s %-18s %-12s %9llu %9s ago  %s\n", texts[0], texts[1], texts[2],
		       (unsigned long long)number_of(refusal, "refused"),
		       age_text(ns_between(number_of(refusal, "last_ns"), now_ns), last),
		       *texts[3] ? texts[3] : "default");
	}
}

static void print_collector(const struct status_options *options, const json_t *status,
			    const json_t *agents)
{
	uint64_t oldest_ns = number_of(status, "oldest_ns");
	uint32_t silent = count_silent(agents);
	size_t sending = json_array_size(agents) - silent;
	char since[UTC_TEXT_BYTES], version[VERSION_BYTES];

	printf("collector %s at %s: %zu agent%s sending, %u silent\n",
	       json_word_of(status, "version", version, sizeof(version)),
	       options->request.collector_http, sending, sending == 1 ? "" : "s", silent);
	if (oldest_ns)
		printf("%.1f MiB of profiles stored, since %s\n",
		       (double)number_of(status, "stored_bytes") / (1 << 20),
		       utc_text(oldest_ns / NS_PER_SECOND, since));
	else
		puts("no profiles stored yet; start an agent: cairn-agent --collector HOST:7171");
	if (number_of(status, "damaged_partitions"))
		printf("%llu hours are damaged: run cairn-collector --check, restore a backup\n",
		       (unsigned long long)number_of(status, "damaged_partitions"));
}

static int run(const struct status_options *options, int *ret_exit, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response first = { 0 }, second = { 0 };
	json_t *status = NULL, *list = NULL;
	int rc = get(&options->request, "/api/v1/agents", &first, &list, err);

	if (!rc && options->json) {
		fwrite(first.body.bytes, 1, first.body.size, stdout);
	} else if (!rc) {
		rc = get(&options->request, "/api/v1/status", &second, &status, err);
	}
	if (!rc) {
		const json_t *agents = json_object_get(list, "agents");

		if (!options->json) {
			print_collector(options, status, agents);
			print_agents(agents, number_of(list, "now_ns"), options->silent_only);
			if (!options->silent_only)
				print_limits(json_object_get(status, "limits"),
					     number_of(status, "now_ns"));
		}
		*ret_exit = options->silent_only && count_silent(agents) ? EXIT_FAILED : EXIT_OK;
	}
	json_decref(status);
	json_decref(list);
	return rc;
}

int cmd_status(int argc, char **argv)
{
	struct status_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int exit_code = EXIT_OK;
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (rc) {
		exit_code = EXIT_USAGE;
	} else if (outcome == CONFIG_RUN) {
		rc = run(&options, &exit_code, &err);
		if (rc)
			exit_code = rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	if (rc)
		fprintf(stderr, "cairn status: %s\n", err.text);
	api_request_deinit(&options.request);
	return exit_code;
}
