// SPDX-License-Identifier: Apache-2.0
#include "agent/node_check.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/bpf/machine.h"
#include "agent/collector_answer.h"
#include "agent/profiler.h"
#include "agent/relabel/relabel_file.h"
#include "agent/ship/sender.h"
#include "agent/ship/spool_folder.h"
#include "agent/sources/source.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/event_log.h"
#include "base/secret_file.h"
#include "proto/rpc.h"

enum {
	POLL_MS = 100,
	LINE_BYTES = 512,
	ANSWER_BYTES_MAX = 1 << 20,
	COLUMN = 14, // of what follows the subject
};

#define CACHE_FREE_BYTES_MIN ((uint64_t)512 << 20)

enum finding { FINDING_OK, FINDING_NOTE, FINDING_WARNING, FINDING_FAILURE, FINDING_COUNT };

struct check {
	const struct options *options;
	bool is_coloured;
	uint32_t found[FINDING_COUNT];
};

static const struct {
	const char *word, *colour;
} findings[] = {
	[FINDING_OK] = { "ok", "\033[32m" },
	[FINDING_NOTE] = { "note", "" },
	[FINDING_WARNING] = { "warning", "\033[33m" },
	[FINDING_FAILURE] = { "FAILED", "\033[31m" },
};

static void __attribute__((format(printf, 4, 5)))
say(struct check *check, enum finding finding, const char *subject, const char *format, ...)
{
	char text[LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("%s%-8s%s%-*s %s\n", check->is_coloured ? findings[finding].colour : "",
	       findings[finding].word, check->is_coloured ? "\033[0m" : "", COLUMN, subject, text);
	fflush(stdout); // the next one may take seconds
	check->found[finding]++;
}

// ---- the kernel -----------------------------------------------------------------------------

static void check_kernel(struct check *check)
{
	struct error err = { 0 };
	struct utsname name;

	if (uname(&name))
		return;
	if (machine_check_release(name.release, &err))
		say(check, FINDING_FAILURE, "kernel", "%s", err.text);
	else
		say(check, FINDING_OK, "kernel", "Linux %s, %s", name.release, name.machine);
	if (machine_check_btf(NULL, &err))
		say(check, FINDING_FAILURE, "BTF", "%s", err.text);
	else
		say(check, FINDING_OK, "BTF", "/sys/kernel/btf/vmlinux");
}

/* "integrity" lets BPF programs read the kernel, "confidentiality" does not. */
static void check_lockdown(struct check *check)
{
	_cleanup_fclose_ FILE *file = fopen("/sys/kernel/security/lockdown", "re");
	char line[128] = "";

	if (file && fgets(line, sizeof(line), file) && strstr(line, "[confidentiality]"))
		say(check, FINDING_FAILURE, "lockdown",
		    "the kernel's lockdown keeps BPF programs from reading it; boot without "
		    "lockdown=confidentiality");
}

static void check_capabilities(struct check *check)
{
	static const enum finding of_use[] = {
		[CAPABILITY_NEEDED] = FINDING_FAILURE,
		[CAPABILITY_NAMES] = FINDING_WARNING,
		[CAPABILITY_OPTIONAL] = FINDING_NOTE,
	};
	const struct capability *missing;
	struct error err = { 0 };
	uint64_t effective = 0;
	uint32_t position = 0, count = 0;

	if (machine_read_capabilities(&effective, &err)) {
		say(check, FINDING_FAILURE, "capabilities", "%s", err.text);
		return;
	}
	for (; (missing = machine_next_missing(effective, &position)); count++)
		say(check, of_use[missing->use], "capabilities", "%s is missing: %s", missing->name,
		    missing->without);
	if (!count)
		say(check, FINDING_OK, "capabilities", "all that are needed");
}

static void check_pid_namespace(struct check *check)
{
	struct error err = { 0 };
	char link[64] = "";

	if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0)
		say(check, FINDING_FAILURE, "processes", "/proc is not mounted: mount it");
	else if (machine_check_pid_namespace(link, &err))
		say(check, FINDING_FAILURE, "processes", "%s", err.text);
}

// ---- sampling -------------------------------------------------------------------------------

static void say_events(struct check *check, struct event_log *events)
{
	struct event event;

	while (event_log_next(events, &event))
		say(check, event.severity <= LOG_LEVEL_WARN ? FINDING_WARNING : FINDING_NOTE,
		    event.subject, "%s", event.text);
}

static int sample(struct profiler *profiler, struct profiler_stats *ret_stats, struct error *err)
{
	uint64_t until_ns = clock_monotonic_ns() + NODE_CHECK_SAMPLE_MS * NS_PER_MS;
	struct pollfd readable = { .fd = profiler_fd(profiler), .events = POLLIN };
	int rc = 0;

	while (!rc && clock_monotonic_ns() < until_ns) {
		if (poll(&readable, 1, POLL_MS) > 0)
			rc = profiler_read(profiler, err);
		profiler_tick(profiler);
	}
	profiler_read_stats(profiler, ret_stats);
	return rc;
}

/* As the agent measures: each source that the kernel refuses is an event. */
static void check_sampling(struct check *check)
{
	struct event_log *events = event_log_new();
	const struct options *options = check->options;
	const struct profiler_options profiling = {
		.frequency_hz = (uint32_t)options->frequency_hz,
		.slot_ns = options->slot_ns,
		.pid = (pid_t)options->pid,
		.events = events,
		.cache_folder = options->cache_folder,
		.sources = options->sources | SOURCE_GPU,
		.wakers = options->wakers,
		.ready_ns_max = PROFILER_READY_NS_MAX,
	};
	struct profiler *profiler = NULL;
	struct profiler_stats stats = { 0 };
	struct error err = { 0 };
	int rc = profiler_open(&profiling, &profiler, &err);

	if (!rc)
		rc = sample(profiler, &stats, &err);
	uint64_t samples = stats.bpf_counters[COUNTER_SAMPLES];
	uint64_t ticks = samples + stats.bpf_counters[COUNTER_TICKS_IDLE] +
			 stats.bpf_counters[COUNTER_SAMPLES_FILTERED];
	if (rc)
		say(check, FINDING_FAILURE, "sampling", "%s", err.text);
	else if (!ticks)
		say(check, FINDING_FAILURE, "sampling",
		    "the BPF programs are loaded, but no timer tick came in %d ms; report it to "
		    "cairn's developers",
		    NODE_CHECK_SAMPLE_MS);
	else
		say(check, FINDING_OK, "sampling",
		    "%llu samples in %d ms, %llu processes, unwind tables of %llu files",
		    (unsigned long long)samples, NODE_CHECK_SAMPLE_MS,
		    (unsigned long long)stats.processes, (unsigned long long)stats.unwind.tables);
	if (events)
		say_events(check, events);
	profiler_close(profiler);
	event_log_free(events);
}

static void check_gpu(struct check *check)
{
	if (access("/proc/driver/nvidia/version", F_OK))
		say(check, FINDING_NOTE, "GPU", "no NVIDIA driver: no GPU is measured");
	else
		say(check, FINDING_OK, "GPU", "NVIDIA's driver is loaded");
}

// ---- the node -------------------------------------------------------------------------------

static void check_clock(struct check *check)
{
	struct timex clock = { 0 };
	int state = adjtimex(&clock);

	if (state < 0)
		say(check, FINDING_NOTE, "clock", "cannot be asked: %s", strerror(errno));
	else if (state == TIME_ERROR || clock.status & STA_UNSYNC)
		say(check, FINDING_WARNING, "clock",
		    "not synchronized: samples are shown at this node's time; run chrony or "
		    "systemd-timesyncd");
	else
		say(check, FINDING_OK, "clock", "synchronized");
}

static void check_cache(struct check *check)
{
	const char *folder = check->options->cache_folder;
	struct statvfs disk;

	if (!folder) {
		say(check, FINDING_NOTE, "cache",
		    "none: each start builds all unwind tables again; --cache keeps them");
		return;
	}
	if (access(folder, W_OK | X_OK)) {
		say(check, FINDING_WARNING, "cache",
		    "%s cannot be written: %s; each start builds all unwind tables again; make the "
		    "folder, or name another with --cache",
		    folder, strerror(errno));
		return;
	}
	uint64_t free_bytes = statvfs(folder, &disk) ? 0 : (uint64_t)disk.f_bavail * disk.f_frsize;
	if (free_bytes < CACHE_FREE_BYTES_MIN)
		say(check, FINDING_WARNING, "cache", "%s has %llu MiB free, it may take %llu MiB",
		    folder, (unsigned long long)(free_bytes >> 20),
		    (unsigned long long)(CACHE_FREE_BYTES_MIN >> 20));
	else
		say(check, FINDING_OK, "cache", "%s, %.1f GiB free", folder,
		    (double)free_bytes / (1 << 30));
}

static void check_spool(struct check *check)
{
	const char *folder = check->options->spool_folder;
	struct statvfs disk;

	if (!folder)
		say(check, FINDING_NOTE, "spool",
		    "in memory: a restart of the agent loses what the collector has not got yet; "
		    "--spool-dir keeps it");
	else if (access(folder, W_OK | X_OK) || statvfs(folder, &disk))
		say(check, FINDING_WARNING, "spool",
		    "%s cannot be written: %s; batches wait in memory; make the folder for user "
		    "%u, or "
		    "name another with --spool-dir",
		    folder, strerror(errno), (unsigned int)geteuid());
	else if (spool_folder_room(&disk) < check->options->spool_folder_bytes)
		say(check, FINDING_WARNING, "spool",
		    "%s has room for %llu MiB of batches, --spool-disk is %llu MiB: %llu MiB of "
		    "its "
		    "disk are kept free",
		    folder, (unsigned long long)(spool_folder_room(&disk) >> 20),
		    (unsigned long long)(check->options->spool_folder_bytes >> 20),
		    (unsigned long long)(spool_folder_kept_free(&disk) >> 20));
	else
		say(check, FINDING_OK, "spool", "%s, room for %.1f GiB", folder,
		    (double)spool_folder_room(&disk) / (1 << 30));
}

static void check_relabel(struct check *check)
{
	_cleanup_(relabel_rules_freep) struct relabel_rules *rules = NULL;
	const char *file = check->options->relabel;
	struct error err = { 0 };

	if (!file)
		return;
	if (relabel_file_read(file, &rules, &err))
		say(check, FINDING_FAILURE, "relabel", "%s", err.text);
	else
		say(check, FINDING_OK, "relabel", "%s, %u rule%s", file, rules->count,
		    rules->count == 1 ? "" : "s");
}

// ---- the collector --------------------------------------------------------------------------

/* What is wrong with a file of this node is no fault of the collector. */
static int open_client(struct check *check, struct rpc_client **ret_client)
{
	const struct options *options = check->options;
	const struct rpc_security security = {
		.ca_file = options->tls_ca,
		.certificate_file = options->tls_cert,
		.key_file = options->tls_key,
		.token_file = options->token_file,
	};
	char secret[SECRET_BYTES_MAX];
	struct error err = { 0 };
	int rc = options->token_file ? secret_file_read(options->token_file, secret, &err) : 0;
	bool is_token = rc;

	secret_erase(secret, sizeof(secret));
	if (!rc)
		rc = rpc_client_open(options->collector, ANSWER_BYTES_MAX, &security, ret_client,
				     &err);
	if (rc)
		say(check, FINDING_FAILURE, "settings", "%s%s", is_token ? "--token-file " : "",
		    err.text);
	return rc;
}

/* A request without a profile: the collector first asks who sends it. Nothing is stored, nor counted. */
static bool check_collector(struct check *check)
{
	static const enum finding of_answer[] = {
		[COLLECTOR_ACCEPTS] = FINDING_OK,
		[COLLECTOR_ACCEPTS_NONE_NOW] = FINDING_WARNING,
		[COLLECTOR_ACCEPTS_NONE] = FINDING_FAILURE,
	};
	_cleanup_(buffer_deinit) struct buffer request = { 0 }, response = { 0 };
	const struct options *options = check->options;
	struct rpc_client *client = NULL;
	char text[COLLECTOR_ANSWER_BYTES];
	struct error err = { 0 };

	if (!options->collector) {
		say(check, FINDING_NOTE, "collector",
		    "none: profiles go to OTLP %s, which is not "
		    "asked",
		    options->otlp);
		return true;
	}
	if (open_client(check, &client))
		return false;
	const struct collector_question question = {
		.address = options->collector,
		.has_tls = options->tls_ca,
		.has_login = options->token_file || options->tls_cert,
		.status = rpc_client_call(client, SENDER_EXPORT_METHOD, &request,
					  NODE_CHECK_COLLECTOR_MS, &response, &err),
		.words = err.text,
	};
	enum collector_answer answer = collector_answer(&question, text);

	rpc_client_close(client);
	say(check, of_answer[answer], "collector", "%s", text);
	return answer != COLLECTOR_ACCEPTS_NONE;
}

// ---- all ------------------------------------------------------------------------------------

int node_check(const struct options *options)
{
	const char *no_color = getenv("NO_COLOR");
	struct check check = {
		.options = options,
		.is_coloured = isatty(STDOUT_FILENO) && !(no_color && *no_color),
	};

	check_kernel(&check);
	check_lockdown(&check);
	check_capabilities(&check);
	check_pid_namespace(&check);
	check_sampling(&check);
	check_gpu(&check);
	check_clock(&check);
	check_cache(&check);
	check_spool(&check);
	check_relabel(&check);
	uint32_t node_failures = check.found[FINDING_FAILURE];
	bool is_collected = check_collector(&check);
	uint32_t warnings = check.found[FINDING_WARNING];
	printf("%s; %u failed, %u warning%s\n",
	       node_failures   ? "This node cannot be profiled"
	       : !is_collected ? "This node can be profiled, but its profiles reach no collector"
			       : "This node can be profiled",
	       check.found[FINDING_FAILURE], warnings, warnings == 1 ? "" : "s");
	return check.found[FINDING_FAILURE] ? EXIT_FAILURE : EXIT_SUCCESS;
}
