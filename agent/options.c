// SPDX-License-Identifier: Apache-2.0
#include "agent/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sources/source.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config.h"
#include "proto/rpc.h"

enum { PID_MAX = 1 << 22 }; // the kernel's PID_MAX_LIMIT

static const char notes[] =
	"It needs root, or CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYSLOG,\n"
	"CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE. SIGUSR1 makes it log what it did\n"
	"and what it cost.\n"
	"\n"
	"  cairn-agent --collector collector.example:7171 --label env=production\n";

/* More than all cores is no bound; less than this no agent can do with. */
#define BUDGET_PERCENT_MIN 0.1
#define BUDGET_PERCENT_MAX (100.0 * 8192)

static int parse_budget(const char *text, struct options *options, struct error *err)
{
	char *end;

	options->governed = strcmp(text, "none") != 0;
	if (!options->governed || strcmp(text, "auto") == 0)
		return 0;
	double percent = strtod(text, &end);
	// Written so that a NaN is refused.
	if (end == text || (*end && strcmp(end, "%") != 0) ||
	    !(percent >= BUDGET_PERCENT_MIN && percent <= BUDGET_PERCENT_MAX))
		return error_set(err, -EINVAL,
				 "--budget: \"%.40s\" is neither a percentage of one core (0.1 or "
				 "more), nor auto, nor none",
				 text);
	options->overhead_budget_percent = percent;
	return 0;
}

/* CPU time is always sampled: its word is there so that a list can name all that is wanted. */
static const struct {
	const char *word;
	uint32_t bits;
} lane_words[] = {
	{ "cpu", 0 },
	{ "wall", SOURCE_WALL },
	{ "memory", SOURCE_MEMORY },
	{ "gpu", SOURCE_GPU_CALLS },
};

static int parse_lane(const char *word, size_t length, uint32_t *sources, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(lane_words); i++) {
		if (strlen(lane_words[i].word) == length &&
		    !strncmp(lane_words[i].word, word, length)) {
			*sources |= lane_words[i].bits;
			return 0;
		}
	}
	return error_set(err, -EINVAL, "--lanes: \"%.*s\" is none of cpu, wall, memory and gpu",
			 (int)(length < 40 ? length : 40), word);
}

static int parse_lanes(const char *text, uint32_t *ret_lanes, struct error *err)
{
	uint32_t sources = 0;

	for (const char *word = text;;) {
		size_t length = strcspn(word, ",");
		int rc = parse_lane(word, length, &sources, err);

		if (rc)
			return rc;
		if (!word[length])
			break;
		word += length + 1;
	}
	*ret_lanes = sources;
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
			"--wakers: \"%.60s\" is not a list of services with commas between",
			services);
	if (!(options->sources & SOURCE_WALL))
		return error_set(
			err, -EINVAL,
			"--wakers: who ends a wait is told with the waits: --lanes has no wall");
	options->sources |= SOURCE_WAKERS;
	return 0;
}

static int check(const struct options *options, const char *log_level, int argc, char **argv,
		 int first_word, enum log_level *ret_level, struct error *err)
{
	struct error cause;

	if (first_word < argc)
		return error_set(err, -EINVAL, "\"%.60s\" is not a setting; see --help",
				 argv[first_word]);
	if (rpc_address_check(options->collector, 1, &cause))
		return error_set(err, -EINVAL, "--collector: %s", cause.text);
	if (options->debuginfod && !options->cache_folder)
		return error_set(
			err, -EINVAL,
			"--debuginfod: what servers send is kept in --cache, which is none");
	if (log_level_parse(log_level, ret_level))
		return error_set(err, -EINVAL,
				 "--log-level: \"%.40s\" is none of error, warn, info and debug",
				 log_level);
	return 0;
}

int options_parse(int argc, char **argv, struct options *ret_options, bool *ret_exit,
		  struct error *err)
{
	_cleanup_free_ char *log_level = NULL, *budget = NULL, *sources = NULL;
	enum config_outcome outcome = CONFIG_RUN;
	struct options *o = ret_options;
	int first_word = argc;

	*o = (struct options){ 0 };
	const struct config_option table[] = {
		{ "collector", 'c', CONFIG_STRING, &o->collector, "127.0.0.1:7171", 0, 0, "ADDR",
		  "ship to the collector's gRPC address, HOST:PORT" },
		{ "frequency", 'F', CONFIG_UINT, &o->frequency_hz, "99", 1, 1000, "HZ",
		  "samples per second and CPU" },
		{ "interval", 'i', CONFIG_DURATION, &o->interval_ns, "5s", NS_PER_SECOND,
		  60 * NS_PER_SECOND, "TIME", "ship this often" },
		{ "slot", 0, CONFIG_DURATION, &o->slot_ns, "20ms", 10 * NS_PER_MS, NS_PER_SECOND,
		  "TIME", "resolution of time that is kept" },
		{ "pid", 'p', CONFIG_UINT, &o->pid, NULL, 1, PID_MAX, "PID",
		  "sample this process and its later children only" },
		{ "label", 'l', CONFIG_LABELS, &o->labels, NULL, 0, 0, "NAME=VALUE",
		  "put a label on everything; may be repeated" },
		{ "spool", 0, CONFIG_SIZE, &o->spool_bytes, "64MiB", 1 << 20, (uint64_t)4 << 30,
		  "SIZE", "memory for what waits while the collector is away" },
		{ "cache", 0, CONFIG_STRING, &o->cache_folder, "/var/cache/cairn", 0, 0, "DIR",
		  "keep unwind tables here over restarts; \"none\" keeps none" },
		{ "lines", 0, CONFIG_BOOL, &o->lines, NULL, 0, 0, NULL,
		  "tell source lines and inlined calls of native code, where DWARF has them" },
		{ "debuginfod", 0, CONFIG_STRING, &o->debuginfod, getenv("DEBUGINFOD_URLS"), 0, 0,
		  "URLS",
		  "ask these servers for the symbols of stripped files; \"none\" asks none" },
		{ "debug-files", 0, CONFIG_SIZE, &o->debug_files_bytes, "1GiB", 1 << 20,
		  (uint64_t)1 << 40, "SIZE", "keep at most so much of what they sent, in --cache" },
		{ "lanes", 0, CONFIG_STRING, &sources, "cpu,wall,memory,gpu", 0, 0, "LIST",
		  "what to measure: cpu (always), wall (what threads wait for), memory (what "
		  "grows), gpu (what is asked of GPUs)" },
		{ "wakers", 0, CONFIG_STRING, &o->wakers, NULL, 0, 0, "SERVICES",
		  "for blocked threads of these services, with commas between, tell who ends the "
		  "wait, too; needs the lane wall" },
		{ "budget", 0, CONFIG_STRING, &budget, "auto", 0, 0, "PERCENT",
		  "what the agent may cost, of one core; auto is 1 for each 8 cores, at least 2; "
		  "\"none\" lets it cost what it costs" },
		{ "governor-interval", 0, CONFIG_DURATION, &o->overhead_interval_ns, "10s",
		  200 * NS_PER_MS, 600 * NS_PER_SECOND, "TIME",
		  "compare the cost with the budget this often; for tests" },
		{ "kernel-windows", 0, CONFIG_DURATION, &o->cupti_interval_ns, "5m", NS_PER_SECOND,
		  24 * 3600 * NS_PER_SECOND, "TIME",
		  "in processes that were started with libcairn_cupti.so, measure how long GPUs' "
		  "kernels "
		  "run for half a second about this often" },
		{ "log-level", 0, CONFIG_STRING, &log_level, "info", 0, 0, "LEVEL",
		  "error, warn, info or debug" },
	};
	const struct config_program program = {
		.name = "cairn-agent",
		.summary = "Sample what every process on this machine is doing, and ship it to a "
			   "collector.",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};

	int rc = config_parse(&program, argc, argv, &outcome, &first_word, err);
	*ret_exit = outcome == CONFIG_EXIT;
	if (rc || *ret_exit)
		return rc;
	if (strcmp(o->cache_folder, "none") == 0) {
		free(o->cache_folder);
		o->cache_folder = NULL;
	}
	if (o->debuginfod && (!o->debuginfod[0] || strcmp(o->debuginfod, "none") == 0)) {
		free(o->debuginfod);
		o->debuginfod = NULL;
	}
	rc = parse_budget(budget, o, err);
	if (!rc)
		rc = parse_lanes(sources, &o->sources, err);
	if (!rc)
		rc = parse_wakers(o, err);
	if (rc)
		return rc;
	return check(o, log_level, argc, argv, first_word, &o->log_level, err);
}

void options_deinit(struct options *options)
{
	free(options->collector);
	free(options->cache_folder);
	free(options->debuginfod);
	free(options->wakers);
	labels_deinit(&options->labels);
	*options = (struct options){ 0 };
}
