// SPDX-License-Identifier: Apache-2.0
#include "agent/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sources/source.h"
#include "base/address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/contract/boosts.h"
#include "base/http/http_listen.h"
#include "base/label_patterns.h"
#include "proto/rpc.h"

enum { PID_MAX = 1 << 22 }; // the kernel's PID_MAX_LIMIT

static const char notes[] =
	"Needs root, or CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYSLOG,\n"
	"CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE. SIGUSR1 logs what it did and its\n"
	"overhead.\n"
	"\n"
	"  cairn-agent --collector collector.example:7171 --label env=production\n";

/* More than all cores limits nothing; no agent can do with less than the minimum. */
#define BUDGET_PERCENT_MIN 0.1
#define BUDGET_PERCENT_MAX (100.0 * 8192)

// A percentage of one core; "auto" is 0.
static int parse_percent(const char *flag, const char *text, const char *words, double *ret_percent,
			 struct error *err)
{
	char *end;

	if (strcmp(text, "auto") == 0)
		return 0;
	double percent = strtod(text, &end);
	// Written so that a NaN is refused.
	if (end == text || (*end && strcmp(end, "%") != 0) ||
	    !(percent >= BUDGET_PERCENT_MIN && percent <= BUDGET_PERCENT_MAX))
		return error_set(err, -EINVAL,
				 "%s: \"%.40s\" is not a percentage of one core (0.1 or more)%s",
				 flag, text, words);
	*ret_percent = percent;
	return 0;
}

static int parse_budgets(const char *budget, const char *boost_budget, struct options *options,
			 struct error *err)
{
	options->has_overhead_budget = strcmp(budget, "none") != 0;
	int rc = options->has_overhead_budget
			 ? parse_percent("--overhead-budget", budget, ", auto or none",
					 &options->overhead_budget_percent, err)
			 : 0;

	return rc ? rc
		  : parse_percent("--boost-budget", boost_budget, " or auto",
				  &options->boost_budget_percent, err);
}

static int parse_thread_names(const char *text, struct options *options, struct error *err)
{
	options->exact_thread_names = strcmp(text, "exact") == 0;
	if (options->exact_thread_names || strcmp(text, "folded") == 0)
		return 0;
	return error_set(err, -EINVAL, "--thread-names: \"%.40s\" is neither folded nor exact",
			 text);
}

/* CPU time is always sampled: its word is there so that a list can name all that is wanted. */
static const struct {
	const char *word;
	uint32_t bits;
} profile_words[] = {
	{ "cpu", 0 },
	{ "wall", SOURCE_WALL },
	{ "memory", SOURCE_MEMORY },
	{ "gpu", SOURCE_GPU_CALLS },
};

static int parse_profile(const char *word, size_t length, uint32_t *sources, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(profile_words); i++) {
		if (strlen(profile_words[i].word) == length &&
		    !strncmp(profile_words[i].word, word, length)) {
			*sources |= profile_words[i].bits;
			return 0;
		}
	}
	return error_set(err, -EINVAL, "--profiles: \"%.*s\" is none of cpu, wall, memory and gpu",
			 (int)(length < 40 ? length : 40), word);
}

static int parse_profiles(const char *text, uint32_t *ret_sources, struct error *err)
{
	uint32_t sources = 0;

	for (const char *word = text;;) {
		size_t length = strcspn(word, ",");
		int rc = parse_profile(word, length, &sources, err);

		if (rc)
			return rc;
		if (!word[length])
			break;
		word += length + 1;
	}
	*ret_sources = sources;
	return 0;
}

static int parse_wakers(struct options *options, struct error *err)
{
	const char *services = options->wakers;

	if (!services)
		return 0;
	if (!*services || *services == ',' || services[strlen(services) - 1] == ',' ||
	    strstr(services, ",,") || strpbrk(services, " \t"))
		return error_set(
			err, -EINVAL,
			"--wakers: \"%.60s\" is not a list of services, separated by commas",
			services);
	if (!(options->sources & SOURCE_WALL))
		return error_set(err, -EINVAL, "--wakers: needs wall in --profiles");
	options->sources |= SOURCE_WAKERS;
	return 0;
}

static int check_patterns(const struct options *options, struct error *err)
{
	const struct {
		const char *flag, *patterns;
	} lists[] = {
		{ "--resource-attributes", options->attribute_patterns },
		{ "--pod-labels", options->pod_labels },
		{ "--pod-annotations", options->pod_annotations },
		{ "--node-labels", options->node_labels },
		{ "--exclude-namespaces", options->excluded_namespaces },
	};
	struct error cause;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (label_patterns_check(lists[i].patterns, &cause))
			return error_set(err, -EINVAL, "%s: %s", lists[i].flag, cause.text);
	return 0;
}

static int check_servers(const struct options *options, struct error *err)
{
	struct error cause;

	if (!options->collector && !options->otlp)
		return error_set(err, -EINVAL,
				 "--collector: none, and no --otlp: profiles would "
				 "go nowhere");
	if (options->collector && rpc_address_check(options->collector, 1, &cause))
		return error_set(err, -EINVAL, "--collector: %s", cause.text);
	if (options->otlp && rpc_address_check(options->otlp, 1, &cause))
		return error_set(err, -EINVAL, "--otlp: %s", cause.text);
	if (!options->otlp && (options->otlp_tls_ca || options->otlp_headers))
		return error_set(err, -EINVAL, "%s: needs --otlp",
				 options->otlp_headers ? "--otlp-headers" : "--otlp-tls-ca");
	if (options->collector && options->token_file && !options->tls_ca && !options->insecure &&
	    !address_is_local(options->collector))
		return error_set(err, -EINVAL,
				 "--token-file: without TLS everybody on the way to %.100s could "
				 "read the token; add --tls-ca (the collector's CA in PEM, or "
				 "system), or --insecure",
				 options->collector);
	if (options->otlp_headers && !options->otlp_tls_ca && !options->insecure &&
	    !address_is_local(options->otlp))
		return error_set(err, -EINVAL,
				 "--otlp-headers: without TLS everybody on the way to %.100s "
				 "could read them; add --otlp-tls-ca (the endpoint's CA in PEM, or "
				 "system), or --insecure",
				 options->otlp);
	return 0;
}

static int check(const struct options *options, const char *log_level, int argc, char **argv,
		 int first_word, enum log_level *ret_level, struct error *err)
{
	int rc;

	if (first_word < argc)
		return error_set(err, -EINVAL, "\"%.60s\" is not a setting; see --help",
				 argv[first_word]);
	rc = check_patterns(options, err);
	if (rc)
		return rc;
	rc = check_servers(options, err);
	if (rc)
		return rc;
	rc = options->admin ? http_listen_check(options->admin, "admin", err) : 0;
	if (rc)
		return rc;
	if (options->debuginfod && !options->cache_folder)
		return error_set(err, -EINVAL,
				 "--debuginfod: needs a --cache for what servers send");
	if (log_level_parse(log_level, ret_level))
		return error_set(err, -EINVAL,
				 "--log-level: \"%.40s\" is none of error, warn, info and debug",
				 log_level);
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret_options, bool *ret_exit,
		  struct error *err)
{
	_cleanup_free_ char *log_level = NULL, *budget = NULL, *profiles = NULL,
			    *boost_budget = NULL, *thread_names = NULL;
	enum config_outcome outcome = CONFIG_RUN;
	struct options *o = ret_options;
	int first_word = argc;

	*o = (struct options){ 0 };
	const struct config_option table[] = {
		{ "collector", 'c', CONFIG_STRING, &o->collector, "127.0.0.1:7171", 0, 0, "ADDR",
		  "send profiles to this collector, HOST:PORT (gRPC); none: only to --otlp" },
		{ "tls-ca", 0, CONFIG_STRING, &o->tls_ca, NULL, 0, 0, "FILE",
		  "connect by TLS and trust a collector with a certificate of these CAs (PEM); "
		  "system: the machine's CAs" },
		{ "tls-cert", 0, CONFIG_STRING, &o->tls_cert, NULL, 0, 0, "FILE",
		  "show the collector this client certificate (PEM); needs --tls-key" },
		{ "tls-key", 0, CONFIG_STRING, &o->tls_key, NULL, 0, 0, "FILE",
		  "private key of --tls-cert (PEM)" },
		{ "token-file", 0, CONFIG_STRING, &o->token_file, NULL, 0, 0, "FILE",
		  "send the collector the token in this file; read again when it changes, as are "
		  "the files of --tls-*" },
		{ "insecure", 0, CONFIG_BOOL, &o->insecure, NULL, 0, 0, NULL,
		  "send the token and --otlp-headers without TLS, where the network is trusted" },
		{ "otlp", 0, CONFIG_STRING, &o->otlp, NULL, 0, 0, "ADDR",
		  "send profiles to this OTLP endpoint, too, HOST:PORT (gRPC, profiles signal "
		  "v1development); while it is unreachable, at most --spool waits in memory" },
		{ "otlp-tls-ca", 0, CONFIG_STRING, &o->otlp_tls_ca, NULL, 0, 0, "FILE",
		  "connect to --otlp by TLS and trust these CAs (PEM); system: the machine's CAs" },
		{ "otlp-headers", 0, CONFIG_STRING, &o->otlp_headers, NULL, 0, 0, "FILE",
		  "send --otlp the headers in this file, \"name: value\" a line; read again when "
		  "it changes" },
		{ "profiles", 0, CONFIG_STRING, &profiles, "cpu,wall,memory,gpu", 0, 0, "LIST",
		  "collect these profiles: cpu (always), wall (off-CPU time, run queue), memory "
		  "(growth), gpu (calls of the GPU driver)" },
		{ "wakers", 0, CONFIG_STRING, &o->wakers, NULL, 0, 0, "SERVICES",
		  "collect off-wake profiles of these services, separated by commas; needs wall" },
		{ "frequency", 'F', CONFIG_UINT, &o->frequency_hz, "99", 1, 1000, "HZ",
		  "collect N on-CPU samples per second and CPU" },
		{ "pid", 'p', CONFIG_UINT, &o->pid, NULL, 1, PID_MAX, "PID",
		  "profile only this process and its children" },
		{ "label", 'l', CONFIG_LABELS, &o->labels, NULL, 0, 0, "NAME=VALUE",
		  "add a label to every series; may be repeated" },
		{ "resource-attributes", 0, CONFIG_STRING, &o->attribute_patterns, NULL, 0, 0,
		  "PATTERNS",
		  "make labels of these OTEL_RESOURCE_ATTRIBUTES beside service.* and "
		  "deployment.*: "
		  "team.name,k8s.*" },
		{ "relabel", 0, CONFIG_STRING, &o->relabel, NULL, 0, 0, "FILE",
		  "apply the relabel rules in this file (YAML, as Prometheus's relabel_configs) to "
		  "the labels of processes" },
		{ "docker", 0, CONFIG_STRING, &o->docker_folder, "/var/lib/docker", 0, 0, "DIR",
		  "label processes of Docker's containers by what its data-root has of them; none: "
		  "do not" },
		{ "podman", 0, CONFIG_STRING, &o->podman_folder, "/var/lib/containers/storage", 0,
		  0, "DIR",
		  "label processes of Podman's containers by what its graphroot has of them; none: "
		  "do not" },
		{ "kubernetes", 0, CONFIG_STRING, &o->kubernetes, "auto", 0, 0, "URL",
		  "label processes with their pods, which this API server lists; auto: the "
		  "cluster's, if the agent runs in a pod with a service account's token; none: do "
		  "not" },
		{ "node", 0, CONFIG_STRING, &o->node, getenv("NODE_NAME"), 0, 0, "NAME",
		  "this node's name in Kubernetes; by default the variable NODE_NAME" },
		{ "pod-labels", 0, CONFIG_STRING, &o->pod_labels, NULL, 0, 0, "PATTERNS",
		  "make labels of these labels of pods: team,example.com/*" },
		{ "pod-annotations", 0, CONFIG_STRING, &o->pod_annotations, NULL, 0, 0, "PATTERNS",
		  "make labels of these annotations of pods" },
		{ "node-labels", 0, CONFIG_STRING, &o->node_labels, NULL, 0, 0, "PATTERNS",
		  "make labels of these labels of the node: topology.kubernetes.io/zone; the "
		  "service account must be allowed to get nodes" },
		{ "exclude-namespaces", 0, CONFIG_STRING, &o->excluded_namespaces, NULL, 0, 0,
		  "PATTERNS",
		  "do not profile pods of these namespaces: kube-system,test-*; a pod's own "
		  "annotation cairn.dev/profile, true or false, wins" },
		{ "kubelet", 0, CONFIG_STRING, &o->kubelet, NULL, 0, 0, "URL",
		  "ask this kubelet for pods while the API server does not answer: "
		  "https://NODE:10250" },
		{ "kubernetes-credentials", 0, CONFIG_STRING, &o->kubernetes_credentials,
		  "/var/run/secrets/kubernetes.io/serviceaccount", 0, 0, "DIR",
		  "folder with the files token and ca.crt; they are read again for each request" },
		{ "thread-names", 0, CONFIG_STRING, &thread_names, "folded", 0, 0, "HOW",
		  "label series with thread names; folded: worker-17 as worker-N; exact: as they "
		  "are" },
		{ "interval", 'i', CONFIG_DURATION, &o->interval_ns, "5s", NS_PER_SECOND,
		  60 * NS_PER_SECOND, "TIME", "export profiles this often" },
		{ "slot", 0, CONFIG_DURATION, &o->slot_ns, "20ms", 10 * NS_PER_MS, NS_PER_SECOND,
		  "TIME", "time resolution of profiles" },
		{ "overhead-budget", 0, CONFIG_STRING, &budget, "auto", 0, 0, "PERCENT",
		  "shed load above this overhead, in percent of one core; auto: 1 per 8 cores, at "
		  "least 2; none: no limit" },
		{ "boost-hz", 0, CONFIG_UINT, &o->boost_hz, "999", 0, BOOST_HZ_MAX, "HZ",
		  "let the collector's administrators raise the rate up to this for a while, add "
		  "profiles, or stop sampling (cairn boost); 0: refuse" },
		{ "boost-budget", 0, CONFIG_STRING, &boost_budget, "auto", 0, 0, "PERCENT",
		  "overhead budget while a boost is active, in percent of one core; auto: 4 per "
		  "core, or four times an --overhead-budget that is set" },
		{ "overhead-interval", 0, CONFIG_DURATION, &o->overhead_interval_ns, "10s",
		  200 * NS_PER_MS, 600 * NS_PER_SECOND, "TIME",
		  "compare the overhead with its budget this often; for tests" },
		{ "cupti-interval", 0, CONFIG_DURATION, &o->cupti_interval_ns, "5m", NS_PER_SECOND,
		  24 * 3600 * NS_PER_SECOND, "TIME",
		  "measure GPU kernels for half a second about this often, in processes started "
		  "with libcairn_cupti.so" },
		{ "lines", 0, CONFIG_BOOL, &o->lines, NULL, 0, 0, NULL,
		  "resolve source lines and inlined calls of native code (needs DWARF)" },
		{ "debuginfod", 0, CONFIG_STRING, &o->debuginfod, getenv("DEBUGINFOD_URLS"), 0, 0,
		  "URLS", "fetch symbols of stripped files from these servers; none: do not" },
		{ "cache", 0, CONFIG_STRING, &o->cache_folder, "/var/cache/cairn", 0, 0, "DIR",
		  "keep unwind tables and fetched symbols here; none: keep nothing" },
		{ "debug-files", 0, CONFIG_SIZE, &o->debug_files_bytes, "1GiB", 1 << 20,
		  (uint64_t)1 << 40, "SIZE", "keep at most this much of fetched symbols" },
		{ "spool", 0, CONFIG_SIZE, &o->spool_bytes, "64MiB", 1 << 20, (uint64_t)4 << 30,
		  "SIZE", "keep at most this much in memory while the collector is unreachable" },
		{ "spool-dir", 0, CONFIG_STRING, &o->spool_folder, NULL, 0, 0, "DIR",
		  "keep there, for the next start of the agent, what the collector has not "
		  "acknowledged" },
		{ "spool-disk", 0, CONFIG_SIZE, &o->spool_folder_bytes, "1GiB", 1 << 20,
		  (uint64_t)1 << 40, "SIZE", "keep at most this much in --spool-dir" },
		{ "admin", 0, CONFIG_STRING, &o->admin, NULL, 0, 0, "ADDR",
		  "answer /healthz, /readyz and /metrics at this host:port or unix:PATH" },
		{ "check", 0, CONFIG_BOOL, &o->check, NULL, 0, 0, NULL,
		  "check whether this node can be profiled with these settings, and exit; "
		  "`cairn doctor` does the same" },
		{ "log-level", 0, CONFIG_STRING, &log_level, "info", 0, 0, "LEVEL",
		  "error, warn, info or debug" },
	};
	const struct config_program program = {
		.name = "cairn-agent",
		.summary = "Profile every process on this machine and send the profiles to a "
			   "collector.",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};

	int rc = config_parse(&program, argc, argv, &outcome, &first_word, err);
	*ret_exit = outcome == CONFIG_EXIT;
	if (rc || *ret_exit)
		return rc;
	char **const optional[] = { &o->cache_folder, &o->docker_folder, &o->podman_folder,
				    &o->collector };
	for (size_t i = 0; i < ARRAY_SIZE(optional); i++)
		if (strcmp(*optional[i], "none") == 0) {
			free(*optional[i]);
			*optional[i] = NULL;
		}
	if (o->spool_folder && (!o->spool_folder[0] || strcmp(o->spool_folder, "none") == 0)) {
		free(o->spool_folder);
		o->spool_folder = NULL;
	}
	if (o->debuginfod && (!o->debuginfod[0] || strcmp(o->debuginfod, "none") == 0)) {
		free(o->debuginfod);
		o->debuginfod = NULL;
	}
	rc = parse_thread_names(thread_names, o, err);
	if (!rc)
		rc = parse_budgets(budget, boost_budget, o, err);
	if (!rc)
		rc = parse_profiles(profiles, &o->sources, err);
	if (!rc)
		rc = parse_wakers(o, err);
	if (rc)
		return rc;
	return check(o, log_level, argc, argv, first_word, &o->log_level, err);
}

void options_deinit(struct options *options)
{
	free(options->collector);
	free(options->otlp);
	free(options->otlp_tls_ca);
	free(options->otlp_headers);
	free(options->cache_folder);
	free(options->spool_folder);
	free(options->debuginfod);
	free(options->wakers);
	free(options->tls_ca);
	free(options->tls_cert);
	free(options->tls_key);
	free(options->token_file);
	free(options->admin);
	free(options->attribute_patterns);
	free(options->kubernetes);
	free(options->kubernetes_credentials);
	free(options->kubelet);
	free(options->relabel);
	free(options->docker_folder);
	free(options->podman_folder);
	free(options->node);
	free(options->pod_labels);
	free(options->pod_annotations);
	free(options->node_labels);
	free(options->excluded_namespaces);
	labels_deinit(&options->labels);
	*options = (struct options){ 0 };
}
