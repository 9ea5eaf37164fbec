// SPDX-License-Identifier: Apache-2.0
// cairn top: the functions that use CPU or block, live on a terminal or as plain tables. Runs the
// profiler in-process, without a collector.

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "agent/sources/source.h"
#include "agent/profiler.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_type.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/no_match.h"
#include "cli/pid.h"
#include "cli/profiler_events.h"
#include "cli/profiler_ready.h"
#include "cli/profiler_wait.h"
#include "cli/recorded_types.h"
#include "cli/target_process.h"
#include "cli/top_keys.h"
#include "cli/top_tables.h"
#include "cli/top_view.h"

#define TOP_INTERVAL_NS_MIN (100 * NS_PER_MS)
#define TOP_SLOT_NS         NS_PER_SECOND // tables keep no time, so few slots are cheapest

struct top_options {
	char *interval;
	char *service;
	char *type_text;
	const struct recorded_type *type;
	bool idle;
	uint64_t pid;
	uint64_t frequency_hz;
	uint64_t tables; // 0: until stopped
	uint64_t rows_max;
	bool batch;
	bool json;
	char *shown_text;
	enum top_shown shown;
	uint64_t interval_ns;
};

struct top {
	const struct top_options *options;
	struct event_log *events;
	struct profiler *profiler;
	struct profile *interval; // the last one drained
	struct top_tables tables;
	struct top_settings settings;
	struct top_header header;
	char scope[96];
	char load[96];
	uint64_t samples_before;
	int64_t idle_excluded; // idle off-CPU time of the interval, nanoseconds
	uint64_t started_ns;
	int signal_fd;
	int pidfd; // of the process given by -p; -1: none, or it has exited
	bool quit;
};

static const char notes[] =
	"Percentages are shares of the CPU time since the last refresh, or of the profile\n"
	"type that --type names: " RECORDED_TYPE_WORDS ".\n"
	"Off-CPU time excludes idle workers and event loops; the first line shows how much\n"
	"was excluded. \"dropped\" counts samples that the BPF programs dropped since the "
	"start:\n"
	"use a lower -F, or -p. With --batch, or when standard output is no terminal, it prints "
	"plain\n"
	"tables: -n of them (default 1).\n"
	"\n"
	"Keys: q quit, 1 functions, 2 calls, 3 threads, s sort by self, t by total, p per process\n"
	"or merged, Enter opens, c callers, / filter, space pause, h help. The mouse works, too.\n"
	"\n"
	"  cairn top\n"
	"  cairn top -p 1234 -d 5\n"
	"  cairn top --batch -n 3 --service checkout\n"
	"  cairn top --type off-cpu\n"
	"  cairn top --type wall --show threads -p 1234\n"
	"  cairn top --json -n 1 --rows 10\n";

static int parse(int argc, char **argv, struct top_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "interval", 'd', CONFIG_STRING, &options->interval, "2", 0, 0, "N",
		  "seconds between refreshes (or 500ms, 1m)" },
		{ "pid", 'p', CONFIG_UINT, &options->pid, NULL, 1, PID_MAX, "PID",
		  "only this process and its children" },
		{ "service", 0, CONFIG_STRING, &options->service, NULL, 0, 0, "NAME",
		  "only processes of this service" },
		{ "type", 0, CONFIG_STRING, &options->type_text, "cpu", 0, 0, "TYPE",
		  "profile type to show" },
		{ "idle", 0, CONFIG_BOOL, &options->idle, NULL, 0, 0, NULL,
		  "include idle off-CPU time" },
		{ "frequency", 'F', CONFIG_UINT, &options->frequency_hz, "99", 1, 1000, "HZ",
		  "samples per second and CPU" },
		{ "batch", 'b', CONFIG_BOOL, &options->batch, NULL, 0, 0, NULL,
		  "print plain tables instead of the terminal screen" },
		{ "tables", 'n', CONFIG_UINT, &options->tables, NULL, 1, 1000000, "N",
		  "exit after N tables" },
		{ "show", 0, CONFIG_STRING, &options->shown_text, "functions", 0, 0, "WHAT",
		  "functions, calls (a tree) or threads" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print a JSON object per table, in a line; implies --batch" },
		{ "rows", 0, CONFIG_UINT, &options->rows_max, "40", 0, 100000, "N",
		  "rows of a plain table; 0: all" },
	};
	const struct config_program program = {
		.name = "cairn top",
		.summary = "Show the functions that use CPU or block, live.",
		.usage = "cairn top [-p PID | --service NAME] [-d N] [--batch [-n N]]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (!rc && *ret_outcome == CONFIG_RUN && first_word < argc)
		return error_set(err, -EINVAL, "\"%.60s\" is not an option; see `cairn top --help`",
				 argv[first_word]);
	return rc;
}

static int check(struct top_options *options, struct error *err)
{
	if (options->service && !*options->service) {
		free(options->service);
		options->service = NULL;
	}
	if (options->json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		options->batch = true;
	if (options->batch && !options->tables)
		options->tables = 1;
	int rc = interval_parse("-d", options->interval, TOP_INTERVAL_NS_MIN, &options->interval_ns,
				err);
	if (!rc)
		rc = recorded_type_find(options->type_text, &options->type, err);
	if (!rc)
		rc = top_shown_find(options->shown_text, &options->shown, err);
	return rc ? rc
		  : recorded_type_check_scope(options->type, options->pid || options->service, err);
}

static void options_deinit(struct top_options *options)
{
	free(options->interval);
	free(options->service);
	free(options->type_text);
	free(options->shown_text);
}

static int open_signals(struct top *top, struct error *err)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &ends, NULL))
		return error_errno(err, -errno, "sigprocmask");
	top->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	return top->signal_fd < 0 ? error_errno(err, -errno, "signalfd") : 0;
}

/* What the table's sum is: CPUs or threads on average, or bytes. */
static void describe_load(struct top *top, uint64_t interval_ns)
{
	const struct recorded_type *type = top->options->type;
	const struct profile_type_spec *spec = recorded_type_spec(type);
	double mean =
		interval_ns ? (double)top_tables_total(&top->tables) / (double)interval_ns : 0;
	double idle = interval_ns ? (double)top->idle_excluded / (double)interval_ns : 0;
	int length = 0;

	if (type->sources & SOURCE_MEMORY)
		snprintf(top->load, sizeof(top->load), "%s %.1f MiB/s", spec->title,
			 mean * NS_PER_SECOND / (1 << 20));
	else if (!type->sources)
		snprintf(top->load, sizeof(top->load), "%s %.2f of %ld %s", spec->title, mean,
			 sysconf(_SC_NPROCESSORS_ONLN), spec->rate);
	else
		length = snprintf(top->load, sizeof(top->load), "%s %.2f %s", spec->title, mean,
				  spec->rate);
	if (recorded_type_has_idle(type) && !top->options->idle)
		snprintf(top->load + length, sizeof(top->load) - (size_t)length,
			 ", idle excluded %.2f", idle);
}

static void describe_scope(struct top *top)
{
	const struct top_options *options = top->options;

	if (options->pid)
		snprintf(top->scope, sizeof(top->scope), "process %llu",
			 (unsigned long long)options->pid);
	else if (options->service)
		snprintf(top->scope, sizeof(top->scope), "service %s", options->service);
	else
		snprintf(top->scope, sizeof(top->scope), "all processes");
	utf8_clean(top->scope);
	top->header.scope = top->scope;
	top->header.load = top->load;
	describe_load(top, 0);
	top->header.interval_s = (double)options->interval_ns / NS_PER_SECOND;
}

static int begin(struct top *top, struct error *err)
{
	char folder[PATH_MAX];
	bool has_folder = cache_folder_default(folder, sizeof(folder)) == 0;
	uint64_t opened_ns = clock_monotonic_ns();
	struct profiler_options options = {
		.cache_folder = has_folder ? folder : NULL,
		.frequency_hz = (uint32_t)top->options->frequency_hz,
		.slot_ns = TOP_SLOT_NS,
		.pid = (pid_t)top->options->pid,
		.sources = top->options->type->sources,
		.wakers = top->options->service,
		.events = top->events,
		.ready_ns_max =
			top->options->pid ? PROFILER_READY_ONE_NS_MAX : PROFILER_READY_NS_MAX,
	};
	int rc = options.pid ? target_process_open(options.pid, &top->pidfd, err) : 0;

	if (!rc)
		rc = open_signals(top, err);
	if (!rc)
		rc = profiler_open(&options, &top->profiler, err);
	if (!rc)
		rc = profiler_ready_check(top->profiler, top->options->type, top->events, err);
	if (!rc)
		profiler_ready_print(top->profiler, ns_between(opened_ns, clock_monotonic_ns()),
				     "cairn top");
	if (!rc && !top->options->batch)
		rc = top_view_open(err);
	describe_scope(top);
	top->started_ns = clock_monotonic_ns();
	return rc;
}

/* Build what is shown again from the last interval. */
static int rebuild(struct top *top, struct error *err)
{
	top_tables_deinit(&top->tables);
	return top_tables_build(top->interval, &top->settings.choice, top->options->type->type,
				&top->tables, err);
}

static int print_json(struct top *top, struct error *err)
{
	struct profile_type type = { 0 };
	int rc = profile_type_parse(top->options->type->type, &type, err);
	json_t *rows = top_tables_json(&top->tables, (uint32_t)top->options->rows_max);
	json_t *root = json_pack(
		"{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "scope", top->scope, "type",
		recorded_type_spec(top->options->type)->word, "unit", type.sample_unit, "show",
		top_shown_name(top->tables.shown), "from_ns", (json_int_t)top->interval->from_ns,
		"to_ns", (json_int_t)top->interval->to_ns, "samples",
		(json_int_t)top->header.samples, "dropped", (json_int_t)top->header.dropped,
		"total", (json_int_t)top_tables_total(&top->tables), "rows", rows);

	if (!rc && (!root || json_dumpf(root, stdout, JSON_COMPACT)))
		rc = error_set(err, -ENOMEM, "out of memory");
	json_decref(root);
	return rc;
}

static int print(struct top *top, struct error *err)
{
	int rc = top->options->json ? print_json(top, err) : 0;

	if (rc)
		return rc;
	if (!top->options->json) {
		printf("%s, %s, samples %llu, dropped %llu\n", top->header.scope, top->header.load,
		       (unsigned long long)top->header.samples,
		       (unsigned long long)top->header.dropped);
		top_tables_print(&top->tables, (uint32_t)top->options->rows_max, stdout);
	}
	putchar('\n');
	if (fflush(stdout) || ferror(stdout))
		return error_errno(err, errno ? -errno : -EIO, "cannot write to standard output");
	return 0;
}

static int show(struct top *top, struct error *err)
{
	struct top_settings *settings = &top->settings;
	int rc = top_tables_select(&top->tables, settings->filter, settings->order,
				   &settings->toggles);

	if (rc)
		return error_errno(err, rc, "table");
	if (top->options->batch)
		return print(top, err);
	top_view_draw(&top->tables, &top->header, settings);
	return 0;
}

/* The services of the interval, for the caller to release. */
static json_t *services_of(const struct profile *interval)
{
	json_t *seen = json_object(), *services = json_array();
	const char *name;
	json_t *value;

	for (uint32_t i = 0; i < interval->series_count; i++) {
		const char *service = labels_get(&interval->series[i].labels, LABEL_SERVICE);

		json_object_set_new(seen, service ? service : "", json_true());
	}
	json_object_foreach(seen, name, value) if (*name)
		json_array_append_new(services, json_string(name));
	json_decref(seen);
	return services;
}

/* A service without samples may be a slip. */
static void note_service(const struct top *top)
{
	const char *service = top->options->service;
	char names[NAMES_TEXT_BYTES], note[NAMES_TEXT_BYTES + 160];

	if (!service || !top->options->batch || top_tables_total(&top->tables))
		return;
	json_t *services = services_of(top->interval);

	nearest_names(services, service, names);
	snprintf(note, sizeof(note), "no samples of service \"%.60s\"; services with samples: %s",
		 service, *names ? names : "none");
	utf8_clean(note);
	fprintf(stderr, "cairn top: %s\n", note);
	json_decref(services);
}

static void update_header(struct top *top)
{
	struct profiler_stats stats;
	uint64_t interval_ns = top->interval->to_ns - top->interval->from_ns;

	profiler_read_stats(top->profiler, &stats);
	top->header.samples = profiler_stats_samples(&stats) - top->samples_before;
	top->samples_before = profiler_stats_samples(&stats);
	top->header.dropped = profiler_stats_dropped(&stats);
	describe_load(top, interval_ns);
}

static bool is_of_service(void *context, const struct profile *profile, const struct series *series)
{
	const char *service = labels_get(&series->labels, LABEL_SERVICE);

	(void)profile;
	return service && strcmp(service, context) == 0;
}

/* End an interval and show it. While paused, intervals are drained unseen, so that no map fills up. */
static int refresh_table(struct top *top, struct error *err)
{
	_cleanup_(profile_freep) struct profile *interval = NULL;
	int rc = profiler_drain(top->profiler, &interval, err);

	if (rc || top->settings.paused)
		return rc;
	profile_free(top->interval);
	top->interval = take(interval);
	top->idle_excluded =
		recorded_types_select(&(struct recorded_types){ { top->options->type }, 1 },
				      top->options->idle, top->interval);
	rc = recorded_type_finish(top->options->type, top->interval);
	if (rc)
		return error_errno(err, rc, "wall-clock time");
	if (top->options->service)
		profile_keep_samples(top->interval, is_of_service, top->options->service);
	rc = rebuild(top, err);
	if (rc)
		return rc;
	update_header(top);
	note_service(top);
	return show(top, err);
}

static int apply_keys(struct top *top, struct error *err)
{
	switch (top_keys_read(&top->settings, &top->tables)) {
	case TOP_QUIT:
		top->quit = true;
		return 0;
	case TOP_REBUILD: {
		int rc = top->interval ? rebuild(top, err) : 0;

		return rc ? rc : show(top, err);
	}
	case TOP_REDRAW:
		return show(top, err);
	case TOP_NOTHING:
		break;
	}
	return 0;
}

/* Children that it started may still run: go on. */
static void note_exit(struct top *top)
{
	size_t length = strlen(top->scope);

	cleanup_closep(&top->pidfd);
	top->pidfd = -1;
	snprintf(top->scope + length, sizeof(top->scope) - length, " (exited)");
	if (top->options->batch)
		target_process_print_exit((pid_t)top->options->pid,
					  ns_between(top->started_ns, clock_monotonic_ns()),
					  "cairn top");
}

static int wait_and_react(struct top *top, uint64_t deadline_ns, struct error *err)
{
	struct pollfd others[] = {
		{ .fd = top->signal_fd, .events = POLLIN },
		{ .fd = top->options->batch ? -1 : STDIN_FILENO, .events = POLLIN },
		{ .fd = top->pidfd, .events = POLLIN },
	};
	int rc = profiler_wait(top->profiler, deadline_ns, others, ARRAY_SIZE(others), err);

	if (rc)
		return rc;
	if (others[0].revents || (others[1].revents & (POLLHUP | POLLERR)))
		top->quit = true;
	if (others[2].revents)
		note_exit(top);
	// Also without a key: a resized terminal interrupts the wait and arrives as a key.
	return top->options->batch ? 0 : apply_keys(top, err);
}

static int run(struct top *top, struct error *err)
{
	const struct top_options *options = top->options;
	uint64_t refresh_ns = clock_monotonic_ns() + options->interval_ns;
	uint64_t tables = 0;
	int rc = options->batch ? 0 : show(top, err);

	while (!rc && !top->quit && (!options->tables || tables < options->tables)) {
		rc = wait_and_react(top, refresh_ns, err);
		if (rc || top->quit || clock_monotonic_ns() < refresh_ns)
			continue;
		rc = refresh_table(top, err);
		refresh_ns = clock_monotonic_ns() + options->interval_ns;
		tables++;
	}
	return rc;
}

static void top_deinit(struct top *top)
{
	top_view_close();
	profiler_close(top->profiler);
	profiler_events_print(top->events, "cairn top");
	event_log_free(top->events);
	profile_free(top->interval);
	top_tables_deinit(&top->tables);
	cleanup_closep(&top->signal_fd);
	cleanup_closep(&top->pidfd);
}

int cmd_top(int argc, char **argv)
{
	_cleanup_(options_deinit) struct top_options options = { 0 };
	struct top top = {
		.options = &options,
		.settings = { .choice.by_process = true },
		.signal_fd = -1,
		.pidfd = -1,
	};
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (!rc)
		rc = check(&options, &err);
	if (rc) {
		fprintf(stderr, "cairn top: %s\n", err.text);
		return EXIT_USAGE;
	}

	top.settings.choice.shown = top.tables.shown = options.shown;
	top.events = event_log_new();
	rc = top.events ? begin(&top, &err) : error_set(&err, -ENOMEM, "out of memory");
	if (!rc)
		rc = run(&top, &err);
	// The terminal first: a message on the screen of ncurses would vanish with it.
	top_deinit(&top);
	if (rc)
		fprintf(stderr, "cairn top: %s\n", err.text);
	return rc ? EXIT_FAILED : EXIT_OK;
}
