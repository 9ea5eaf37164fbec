// SPDX-License-Identifier: Apache-2.0
// cairn boost: tell agents to sample more, or not at all, for a while; list and end such boosts.

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/contract/boosts.h"
#include "cli/api_request.h"
#include "cli/command.h"

#define BOOSTS_PATH "/api/v1/boosts"
#define POLL_NS     (500 * NS_PER_MS)

enum { WORD_BYTES = 256, NUMBER_BYTES = 24 };

struct boost_options {
	struct api_request request;
	uint64_t hz, for_ns, wait_ns;
	char *profiles, *end; // owned
	bool stop, list, json;
};

static const char notes[] =
	"SELECTOR is PromQL's: '{service=\"llm\", node=\"a17\"}', or a bare service name; '{}' is "
	"all.\n"
	"The nodes that had such series in the last five minutes are boosted, as a whole: a rate "
	"is\n"
	"a CPU's, not a service's. An agent does at most what its own --boost-hz and "
	"--boost-budget\n"
	"allow, reports what it does, and ends a boost by itself when its time is over or the "
	"collector is "
	"gone.\n"
	"The role admin is needed; a credential for all tenants names one: "
	"'{tenant=\"shop\"}'.\n"
	"\n"
	"It waits until the agents have answered. The exit status is 1 if one has refused, or has "
	"not\n"
	"answered.\n"
	"\n"
	"  cairn boost '{service=\"llm\"}' --hz 999 --for 60s\n"
	"  cairn boost llm --profiles wakers --for 5m\n"
	"  cairn boost '{node=\"a17\"}' --stop --for 10m\n"
	"  cairn boost --list\n"
	"  cairn boost --end 3fa09c12\n";

static int check(const struct boost_options *options, bool has_selector, struct error *err)
{
	uint32_t profiles;

	if ((options->list || options->end) &&
	    (has_selector || options->hz || options->profiles || options->stop || options->for_ns))
		return error_set(err, -EINVAL, "--list and --end go with nothing else");
	if (options->list || options->end)
		return 0;
	if (!has_selector)
		return error_set(
			err, -EINVAL,
			"SELECTOR is missing ('{}' is everything); see `cairn boost --help`");
	if (!options->for_ns)
		return error_set(err, -EINVAL, "--for is missing: how long, 60s");
	if (options->stop && (options->hz || options->profiles))
		return error_set(err, -EINVAL, "--stop does not go with --hz or --profiles");
	if (!options->stop && !options->hz && !options->profiles)
		return error_set(err, -EINVAL, "what to do is missing: --hz, --profiles or --stop");
	return options->profiles ? boost_profiles_parse(options->profiles, &profiles, err) : 0;
}

static int parse(int argc, char **argv, struct boost_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "hz", 0, CONFIG_UINT, &options->hz, NULL, 1, BOOST_HZ_MAX, "HZ",
		  "collect N on-CPU samples per second and CPU" },
		{ "profiles", 0, CONFIG_STRING, &options->profiles, NULL, 0, 0, "LIST",
		  "collect these, too: wall, memory, wakers (of the services that SELECTOR "
		  "matches)" },
		{ "stop", 0, CONFIG_BOOL, &options->stop, NULL, 0, 0, NULL, "collect nothing" },
		{ "for", 0, CONFIG_DURATION, &options->for_ns, NULL, NS_PER_SECOND,
		  BOOST_SECONDS_MAX * NS_PER_SECOND, "TIME", "end it after this time; 1h at most" },
		{ "list", 0, CONFIG_BOOL, &options->list, NULL, 0, 0, NULL,
		  "list the active boosts" },
		{ "end", 0, CONFIG_STRING, &options->end, NULL, 0, 0, "ID", "end a boost now" },
		{ "wait", 0, CONFIG_DURATION, &options->wait_ns, "20s", 0, 600 * NS_PER_SECOND,
		  "TIME", "wait so long for answers of agents" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print the collector's JSON" },
		{ "collector-http", 0, CONFIG_STRING, &options->request.collector_http,
		  "http://127.0.0.1:7070", 0, 0, "URL", "where the collector answers" },
		{ "timeout", 0, CONFIG_DURATION, &options->request.timeout_ns, "60s",
		  100 * NS_PER_MS, 3600 * NS_PER_SECOND, "TIME", "time limit of a request" },
		HTTP_SECURITY_OPTIONS(&options->request.security),
	};
	const struct config_program program = {
		.name = "cairn boost",
		.summary = "Let agents sample more, or not at all, for a while.",
		.usage = "cairn boost SELECTOR [--hz HZ] [--profiles LIST] [--stop] --for TIME\n"
			 "       cairn boost --list\n"
			 "       cairn boost --end ID",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	rc = check(options, first_word < argc && *argv[first_word], err);
	return rc ? rc
		  : api_request_set_selector(&options->request, argc - first_word,
					     argv + first_word, err);
}

// ---- requests -------------------------------------------------------------------------------

typedef int (*send_fn)(const struct api_request *request, struct buffer *url,
		       struct http_response *response, struct error *err);

/* @ret_json: the caller's. */
static int ask(const struct boost_options *options, send_fn send, struct buffer *url,
	       json_t **ret_json, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	int rc = send(&options->request, url, &response, err);

	if (rc)
		return rc;
	*ret_json = json_loadb((const char *)response.body.bytes, response.body.size, 0, NULL);
	if (!json_is_object(*ret_json)) {
		json_decref(*ret_json);
		return error_set(err, -EBADMSG, "%s did not answer as a cairn-collector does",
				 options->request.collector_http);
	}
	return 0;
}

static int get_boosts(const struct boost_options *options, json_t **ret_json, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	const struct api_request request = { .collector_http = options->request.collector_http };

	api_request_begin_url(&request, BOOSTS_PATH, &url);
	return ask(options, api_request_send, &url, ret_json, err);
}

static int begin_boost(const struct boost_options *options, json_t **ret_boost, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	char number[NUMBER_BYTES];

	api_request_begin_url(&options->request, BOOSTS_PATH, &url);
	if (options->hz) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)options->hz);
		http_append_parameter(&url, "hz", number);
	}
	http_append_parameter(&url, "profiles", options->profiles);
	http_append_parameter(&url, "stop", options->stop ? "true" : NULL);
	snprintf(number, sizeof(number), "%llums",
		 (unsigned long long)(options->for_ns / NS_PER_MS));
	http_append_parameter(&url, "for", number);
	return ask(options, api_request_send_post, &url, ret_boost, err);
}

static int end_boost(const struct boost_options *options, struct error *err)
{
	const struct api_request request = { .collector_http = options->request.collector_http };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	json_t *answer = NULL;
	uint32_t id;

	// Nothing else would do as a part of the path.
	if (boost_id_parse(options->end, &id))
		return error_set(err, -EINVAL,
				 "--end: \"%.40s\" is no id of a boost; `cairn boost --list` shows "
				 "them",
				 options->end);
	api_request_begin_url(&request, BOOSTS_PATH "/", &url);
	buffer_append_string(&url, options->end);
	int rc = ask(options, api_request_send_deletion, &url, &answer, err);
	if (!rc)
		printf("boost %s ends with the next answer to each of its agents\n", options->end);
	json_decref(answer);
	return rc;
}

// ---- what is printed ------------------------------------------------------------------------

static uint32_t number_of(const json_t *object, const char *key)
{
	json_int_t number = json_integer_value(json_object_get(object, key));

	return number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0;
}

static bool has_state(const json_t *node, const char *state)
{
	return strcmp(json_text_of(node, "state"), state) == 0;
}

static size_t count_state(const json_t *boost, const char *state)
{
	const json_t *node;
	size_t i, count = 0;

	json_array_foreach(json_object_get(boost, "nodes"), i, node) count +=
		has_state(node, state);
	return count;
}

/* "999 Hz, wakers" */
static void print_asked(const json_t *boost)
{
	char profiles[WORD_BYTES];
	uint32_t hz = number_of(boost, "hz");

	json_word_of(boost, "profiles", profiles, sizeof(profiles));
	if (json_is_true(json_object_get(boost, "stop")))
		printf("stop");
	if (hz)
		printf("%u Hz", hz);
	printf("%s%s", hz && *profiles ? ", " : "", profiles);
}

/* Why an agent does less than it was asked for. */
static void print_limits(const json_t *boost, const json_t *node)
{
	char has[WORD_BYTES], wanted[WORD_BYTES];
	uint32_t hz = number_of(node, "hz"), hz_max = number_of(node, "hz_max");

	json_word_of(boost, "profiles", wanted, sizeof(wanted));
	json_word_of(node, "profiles", has, sizeof(has));
	if (number_of(boost, "hz") > hz)
		printf(" %u Hz (%s)", hz,
		       number_of(boost, "hz") > hz_max && hz >= hz_max
			       ? "its --boost-hz"
			       : "its overhead budget, --boost-budget");
	if (strcmp(wanted, has) != 0)
		printf(" profiles %s (see its log)", *has ? has : "none");
	if (json_is_true(json_object_get(boost, "stop")))
		printf(" it has not stopped");
	putchar('\n');
}

static void print_node(const json_t *boost, const json_t *node)
{
	char name[WORD_BYTES];

	json_word_of(node, "node", name, sizeof(name));
	if (has_state(node, "refused"))
		printf("%s: refused: boosts are off there (--boost-hz 0)\n", name);
	else if (has_state(node, "waiting"))
		printf("%s: no answer: its agent is silent, or older than boosts\n", name);
	else if (has_state(node, "limited")) {
		printf("%s: limited:", name);
		print_limits(boost, node);
	}
}

static void print_nodes(const json_t *boost)
{
	const json_t *node, *nodes = json_object_get(boost, "nodes");
	size_t i, limited = count_state(boost, "limited");

	printf("applied on %zu of %zu nodes", count_state(boost, "applied") + limited,
	       json_array_size(nodes));
	printf(limited ? ", on %zu of them less than asked for\n" : "\n", limited);
	json_array_foreach(nodes, i, node) print_node(boost, node);
}

static void print_boost(const json_t *boost)
{
	char id[WORD_BYTES], who[WORD_BYTES], query[WORD_BYTES];

	printf("%s  %s  ", json_word_of(boost, "id", id, sizeof(id)),
	       json_word_of(boost, "query", query, sizeof(query)));
	print_asked(boost);
	printf(", %u s left, by %s: ", (number_of(boost, "left_ms") + 999) / 1000,
	       json_word_of(boost, "who", who, sizeof(who)));
	print_nodes(boost);
}

static int list_boosts(const struct boost_options *options, struct error *err)
{
	json_t *answer = NULL;
	int rc = get_boosts(options, &answer, err);

	if (rc)
		return rc;
	const json_t *boost, *boosts = json_object_get(answer, "boosts");
	size_t i;

	if (options->json) {
		json_dumpf(answer, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (!json_array_size(boosts)) {
		puts("no boost is active");
	} else {
		json_array_foreach(boosts, i, boost) print_boost(boost);
	}
	json_decref(answer);
	return 0;
}

// ---- begin and wait -------------------------------------------------------------------------

/* The boost of @id in an answer; borrowed. NULL: it is over. */
static json_t *find_boost(const json_t *answer, const char *id)
{
	json_t *boost;
	size_t i;

	json_array_foreach(json_object_get(answer, "boosts"), i, boost)
	{
		if (strcmp(json_text_of(boost, "id"), id) == 0)
			return boost;
	}
	return NULL;
}

static void pause_ns(uint64_t ns)
{
	const struct timespec pause = { (time_t)(ns / NS_PER_SECOND), (long)(ns % NS_PER_SECOND) };

	nanosleep(&pause, NULL);
}

/* Until all agents have answered; *@boost becomes the last that is known of it. */
static int wait_for_agents(const struct boost_options *options, json_t **boost, struct error *err)
{
	uint64_t end_ns = clock_monotonic_ns() + options->wait_ns;

	while (count_state(*boost, "waiting") && clock_monotonic_ns() < end_ns) {
		json_t *answer = NULL;

		pause_ns(POLL_NS);
		int rc = get_boosts(options, &answer, err);
		if (rc)
			return rc;
		json_t *now = find_boost(answer, json_text_of(*boost, "id"));
		if (now) {
			json_incref(now);
			json_decref(*boost);
			*boost = now;
		}
		json_decref(answer);
		if (!now)
			return error_set(err, -ECANCELED,
					 "the boost ended before all agents answered");
	}
	return 0;
}

static int run_boost(const struct boost_options *options, int *ret_exit, struct error *err)
{
	json_t *boost = NULL;
	char id[WORD_BYTES];
	int rc = begin_boost(options, &boost, err);

	if (rc)
		return rc;
	if (!options->json) {
		printf("boost %s: ", json_word_of(boost, "id", id, sizeof(id)));
		print_asked(boost);
		printf(" for %llu s on %zu nodes\n",
		       (unsigned long long)(options->for_ns / NS_PER_SECOND),
		       json_array_size(json_object_get(boost, "nodes")));
		fflush(stdout);
	}
	if (options->wait_ns)
		rc = wait_for_agents(options, &boost, err);
	if (options->json) {
		json_dumpf(boost, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (options->wait_ns) {
		print_nodes(boost);
	}
	if (options->wait_ns && (count_state(boost, "waiting") || count_state(boost, "refused")))
		*ret_exit = EXIT_FAILED;
	json_decref(boost);
	return rc;
}

int cmd_boost(int argc, char **argv)
{
	struct boost_options options = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int exit_code = EXIT_OK;
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (rc) {
		exit_code = EXIT_USAGE;
	} else if (outcome == CONFIG_RUN) {
		rc = options.list  ? list_boosts(&options, &err)
		     : options.end ? end_boost(&options, &err)
				   : run_boost(&options, &exit_code, &err);
		if (rc)
			exit_code = rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	if (rc)
		fprintf(stderr, "cairn boost: %s\n", err.text);
	api_request_deinit(&options.request);
	free(options.profiles);
	free(options.end);
	return exit_code;
}
