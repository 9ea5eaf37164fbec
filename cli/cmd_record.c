// SPDX-License-Identifier: Apache-2.0
// cairn record: profile processes, or a command from its first instruction, into a file. Uses the
// agent's code in-process; no collector is needed.

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/profiler.h"
#include "agent/sources/source.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/profile/profile_merge.h"
#include "cli/command.h"
#include "cli/held_command.h"
#include "cli/json_line.h"
#include "cli/line_launcher.h"
#include "cli/pid.h"
#include "cli/profiler_events.h"
#include "cli/profiler_ready.h"
#include "cli/profiler_wait.h"
#include "cli/progress.h"
#include "cli/recorded_types.h"
#include "cli/recording_files.h"
#include "cli/target_process.h"
#include "proto/export.h"

#define DRAIN_INTERVAL_NS    (2 * NS_PER_SECOND)
#define PROGRESS_INTERVAL_NS (250 * NS_PER_MS)
#define DURATION_NS_MIN      (10 * NS_PER_MS)
#define EXIT_SIGNALED        128 // and the signal's number, as shells have it
/* A terminal sends Ctrl-C to the command, too: it may take a moment to end by it. */
#define INTERRUPTED_WAIT_MS 500
#define RECORD_SLOT_NS      NS_PER_SECOND    // most files keep no time, so few slots are cheapest
#define TIMELINE_SLOT_NS    (20 * NS_PER_MS) // of those that do

enum {
	TIMELINE_SAMPLES_MAX = 4 << 20, // 128 MiB; 16 CPUs at 99 Hz fill it in 40 minutes
	NOTES_BYTES = 4096,
	AMOUNTS_BYTES = 512,
};

struct record_options {
	char *duration;
	char *output, *format_text;
	char *type_text;
	struct recorded_types types;
	bool idle;
	bool native_only;
	bool only_gil;
	bool json;
	uint64_t pid;
	uint64_t frequency_hz;
	struct labels labels;
	uint64_t duration_ns; // 0: until Ctrl-C or the end of what is recorded
	struct recording_files files;
	char **command; // ended by NULL; NULL: none
	bool lines;
};

struct recording {
	struct record_options *options;
	struct event_log *events;
	struct confined_launcher *launcher; // of --lines
	struct profiler *profiler;
	struct profile *merged;
	struct held_command command;
	int pidfd; // of the process given by -p; -1: none
	int signal_fd;
	bool is_interrupted; // by a signal
	bool has_exited;     // the process of -p
	bool is_full;        // no more samples with time
	int interrupted_by;  // the signal that came before recording began; 0: none
	uint64_t opened_ns;
	uint64_t started_ns;
	uint64_t stopped_ns;
	uint64_t samples;
	uint64_t dropped;
	int64_t idle_excluded; // idle waits
};

static const char notes_format[] =
	"The suffix of FILE selects the format, unless --format does:\n"
	"%s"
	"Without -p and COMMAND it records all processes. Recording ends after -d, when the "
	"process or COMMAND exits, or with\n"
	"Ctrl-C; FILE is written in each case. Only if nothing was recorded, an existing FILE\n"
	"is left as it was, and the exit status is 1. A COMMAND that still runs after -d is\n"
	"terminated. With a COMMAND, the exit status is its own, or 128 + N if signal N\n"
	"killed it. TYPES are " RECORDED_TYPE_WORDS ".\n"
	"Of several, separated by commas, a pprof file has a sample type each (go tool pprof "
	"-sample_index=blocked);\n"
	"for other formats FILE is a folder, as flames/, and --format selects its files' format.\n"
	"Off-CPU time excludes idle workers and event loops; how much is printed. \"dropped\" "
	"counts\n"
	"samples that the BPF programs dropped: use a lower -F, or -p.\n"
	"\n"
	"  cairn record -d 10 -o machine.svg\n"
	"  cairn record -d 30 -p 1234 -o service.pb.gz\n"
	"  cairn record -d 30 -p 1234 --type cpu,off-cpu,memory -o service.pb.gz\n"
	"  cairn record -d 30 -p 1234 --type cpu,off-cpu --format svg -o flames/\n"
	"  cairn record -d 10 -p 1234 --type wall -o service.trace.json\n"
	"  cairn record -d 30 -p 1234 --type off-cpu -o off-cpu.svg\n"
	"  cairn record -d 30 -p 1234 --type off-wake -o wakers.svg\n"
	"  cairn record -o build.collapsed -- make -j8\n";

static int parse(int argc, char **argv, struct record_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "duration", 'd', CONFIG_STRING, &options->duration, NULL, 0, 0, "N",
		  "record for N seconds (or 500ms, 2m); default: until Ctrl-C or exit" },
		{ "output", 'o', CONFIG_STRING, &options->output, NULL, 0, 0, "FILE",
		  "file to write" },
		{ "format", 0, CONFIG_STRING, &options->format_text, NULL, 0, 0, "FORMAT",
		  "format of FILE" },
		{ "pid", 'p', CONFIG_UINT, &options->pid, NULL, 1, PID_MAX, "PID",
		  "record only this process and its children" },
		{ "type", 0, CONFIG_STRING, &options->type_text, "cpu", 0, 0, "TYPES",
		  "profile types to record, separated by commas" },
		{ "idle", 0, CONFIG_BOOL, &options->idle, NULL, 0, 0, NULL,
		  "include idle off-CPU time" },
		{ "native-only", 0, CONFIG_BOOL, &options->native_only, NULL, 0, 0, NULL,
		  "leave Python's frames out: the interpreter's own native ones stay" },
		{ "gil", 0, CONFIG_BOOL, &options->only_gil, NULL, 0, 0, NULL,
		  "record only threads that hold the GIL (CPython 3.6 to 3.14)" },
		{ "frequency", 'F', CONFIG_UINT, &options->frequency_hz, "99", 1, 1000, "HZ",
		  "samples per second and CPU" },
		{ "lines", 0, CONFIG_BOOL, &options->lines, NULL, 0, 0, NULL,
		  "resolve source lines and inlined calls of native code from DWARF" },
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print what was recorded as JSON, too, on standard output" },
		{ "label", 0, CONFIG_LABELS, &options->labels, NULL, 0, 0, "NAME=VALUE",
		  "add a label to all series; repeatable" },
	};
	char formats[EXPORT_HELP_BYTES], notes[NOTES_BYTES];
	const struct config_program program = {
		.name = "cairn record",
		.summary = "Record where processes or a command spend time.",
		.usage = "cairn record -o FILE [-d N] [-p PID | -- COMMAND...]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;

	export_format_help(formats);
	snprintf(notes, sizeof(notes), notes_format, formats);
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (first_word < argc && strcmp(argv[first_word - 1], "--") != 0)
		return error_set(err, -EINVAL,
				 "\"%.60s\" is not an option; put -- before a command to run",
				 argv[first_word]);
	options->command = first_word < argc ? argv + first_word : NULL;
	return 0;
}

static int check(struct record_options *options, struct error *err)
{
	char suffixes[EXPORT_WORDS_BYTES];
	int rc;

	export_format_suffixes(suffixes);
	if (!options->output || !*options->output)
		return error_set(err, -EINVAL,
				 "-o FILE is missing; its suffix selects the format: %s", suffixes);
	if (options->pid && options->command)
		return error_set(err, -EINVAL, "-p PID and COMMAND cannot be combined");
	rc = options->duration ? interval_parse("-d", options->duration, DURATION_NS_MIN,
						&options->duration_ns, err)
			       : 0;
	if (!rc)
		rc = recorded_types_find(options->type_text, &options->types, err);
	if (!rc && options->only_gil &&
	    (options->types.count > 1 || recorded_types_sources(&options->types) != 0))
		return error_set(err, -EINVAL, "--gil is for CPU samples: leave --type out");
	if (!rc)
		rc = recording_files_plan(options->output, options->format_text, &options->types,
					  &options->files, err);
	return rc ? rc
		  : recorded_types_check_scope(&options->types, options->pid || options->command,
					       err);
}

static void options_deinit(struct record_options *options)
{
	free(options->duration);
	free(options->output);
	free(options->format_text);
	free(options->type_text);
	recording_files_deinit(&options->files);
	labels_deinit(&options->labels);
}

/* From here on Ctrl-C makes a descriptor readable: the recording ends and the file is written. */
static int open_signals(int *ret_fd, struct error *err)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &ends, NULL))
		return error_errno(err, -errno, "sigprocmask");
	*ret_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	return *ret_fd < 0 ? error_errno(err, -errno, "signalfd") : 0;
}

static bool keeps_time(const struct record_options *options)
{
	return export_format_spec(options->files.format)->uses_time;
}

static uint64_t slot_ns_of(const struct record_options *options)
{
	return keeps_time(options) ? TIMELINE_SLOT_NS : RECORD_SLOT_NS;
}

static int open_profiler(struct recording *recording, struct error *err)
{
	const struct record_options *options = recording->options;
	char folder[PATH_MAX];
	bool has_folder = cache_folder_default(folder, sizeof(folder)) == 0;
	uint64_t ready_ns = options->pid ? PROFILER_READY_ONE_NS_MAX : PROFILER_READY_NS_MAX;
	struct profiler_options profiler_options = {
		.cache_folder = has_folder ? folder : NULL,
		.frequency_hz = (uint32_t)options->frequency_hz,
		.slot_ns = slot_ns_of(options),
		.line_launcher = recording->launcher,
		.sources = recorded_types_sources(&options->types),
		.only_gil = options->only_gil,
		.events = recording->events,
		.ready_ns_max = options->command ? 0 : ready_ns, // it has not begun
		.pid = options->command ? recording->command.pid : (pid_t)options->pid,
		.is_held = options->command != NULL,
	};
	int rc = labels_copy(&options->labels, &profiler_options.labels);

	if (!rc)
		rc = profiler_open(&profiler_options, &recording->profiler, err);
	else
		error_errno(err, rc, "labels");
	labels_deinit(&profiler_options.labels);
	return rc;
}

/* While the profiler opened, Ctrl-C was blocked. */
static int check_interrupted(struct recording *recording, struct error *err)
{
	struct signalfd_siginfo info;

	if (read(recording->signal_fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	recording->interrupted_by = (int)info.ssi_signo;
	return error_set(err, -EINTR, "interrupted before recording began");
}

static int check_measured(const struct recording *recording, struct error *err)
{
	const struct recorded_types *types = &recording->options->types;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < types->count; i++)
		rc = profiler_ready_check(recording->profiler, types->at[i], recording->events,
					  err);
	return rc;
}

static int begin(struct recording *recording, struct error *err)
{
	struct record_options *options = recording->options;
	int rc = recording_files_open(&options->files, err);

	if (!rc && options->pid)
		rc = target_process_open((pid_t)options->pid, &recording->pidfd, err);
	if (!rc)
		rc = open_signals(&recording->signal_fd, err);
	if (!rc)
		recording->launcher = line_launcher_start(options->lines, "cairn record");
	if (!rc && options->command)
		rc = held_command_start(options->command, &recording->command, err);
	if (!rc)
		rc = open_profiler(recording, err);
	if (!rc)
		rc = check_measured(recording, err);
	if (!rc)
		rc = check_interrupted(recording, err);
	if (rc)
		return rc;

	recording->merged = profile_new(slot_ns_of(options));
	if (!recording->merged)
		return error_set(err, -ENOMEM, "out of memory");
	recording->started_ns = clock_monotonic_ns();
	if (!options->command)
		profiler_ready_print(recording->profiler,
				     ns_between(recording->opened_ns, recording->started_ns),
				     "cairn record");
	return options->command
		       ? held_command_release(&recording->command, options->command[0], err)
		       : 0;
}

static int drain(struct recording *recording, struct error *err)
{
	_cleanup_(profile_freep) struct profile *interval = NULL;
	int rc = profiler_drain(recording->profiler, &interval, err);

	if (rc)
		return rc;
	recording->idle_excluded += recorded_types_select(&recording->options->types,
							  recording->options->idle, interval);
	if (!keeps_time(recording->options))
		return profile_merge(recording->merged, interval, err);
	rc = profile_merge_slots(recording->merged, interval, err);
	recording->is_full = recording->merged->sample_count >= TIMELINE_SAMPLES_MAX;
	return rc;
}

static void count_samples(struct recording *recording)
{
	struct profiler_stats stats;

	profiler_read_stats(recording->profiler, &stats);
	recording->samples = profiler_stats_samples(&stats);
	recording->dropped = profiler_stats_dropped(&stats);
}

static void show_progress(struct recording *recording, uint64_t now_ns)
{
	char detail[64];

	count_samples(recording);
	snprintf(detail, sizeof(detail), "%llu samples", (unsigned long long)recording->samples);
	progress_draw("recording", now_ns - recording->started_ns, recording->options->duration_ns,
		      detail);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Until the duration is over, the process exits, a timeline is full or Ctrl-C is pressed. */
static int run(struct recording *recording, struct error *err)
{
	uint64_t duration_ns = recording->options->duration_ns;
	uint64_t end_ns = duration_ns ? recording->started_ns + duration_ns : UINT64_MAX;
	uint64_t drain_ns = recording->started_ns + DRAIN_INTERVAL_NS;
	int process_fd = recording->options->command ? recording->command.pidfd : recording->pidfd;
	bool ended = false;
	int rc = 0;

	for (uint64_t now_ns = recording->started_ns;
	     !rc && !ended && !recording->is_full && now_ns < end_ns;
	     now_ns = clock_monotonic_ns()) {
		struct pollfd others[] = {
			{ .fd = recording->signal_fd, .events = POLLIN },
			{ .fd = process_fd, .events = POLLIN },
		};
		uint64_t until_ns = earliest(end_ns, now_ns + PROGRESS_INTERVAL_NS);

		rc = profiler_wait(recording->profiler, until_ns, others, ARRAY_SIZE(others), err);
		recording->is_interrupted = others[0].revents;
		ended = others[0].revents || others[1].revents;
		recording->has_exited = others[1].revents && recording->options->pid;
		show_progress(recording, clock_monotonic_ns());
		if (!rc && clock_monotonic_ns() >= drain_ns) {
			rc = drain(recording, err);
			drain_ns = clock_monotonic_ns() + DRAIN_INTERVAL_NS;
		}
	}
	if (rc)
		return rc;
	recording->stopped_ns = clock_monotonic_ns();
	profiler_stop(recording->profiler);
	rc = drain(recording, err);
	count_samples(recording); // the last ones were snapshots
	return rc;
}

static int write_files(struct recording *recording, struct error *err)
{
	struct record_options *options = recording->options;
	char title[96];

	progress_draw("writing", clock_monotonic_ns() - recording->started_ns, 0, options->output);
	snprintf(title, sizeof(title), "%s",
		 options->command ? options->command[0]
				  : recorded_type_spec(options->types.at[0])->title);
	if (options->pid)
		snprintf(title, sizeof(title), "process %llu", (unsigned long long)options->pid);
	int rc = recorded_types_finish(&options->types, recording->merged);
	if (rc)
		return error_errno(err, rc, "wall-clock time");
	if (options->native_only)
		profile_drop_frames(recording->merged, FRAME_KIND_PYTHON);
	return recording_files_write(&options->files, recording->merged, title,
				     options->frequency_hz, err);
}

static void report_command_end(const struct recording *recording)
{
	const struct held_command *command = &recording->command;
	const char *name = recording->options->command[0];

	if (!command->ended)
		fprintf(stderr, "%s still ran after -d and was terminated\n", name);
	else if (WIFSIGNALED(command->wait_status))
		fprintf(stderr, "%s was killed by signal %d (%s)\n", name,
			WTERMSIG(command->wait_status), strsignal(WTERMSIG(command->wait_status)));
	else if (WEXITSTATUS(command->wait_status) || progress_is_shown())
		fprintf(stderr, "%s exited with status %d\n", name,
			WEXITSTATUS(command->wait_status));
}

/* "pid 1234", the command, or "all processes". */
static void describe_scope(const struct recording *recording, char *text, size_t size)
{
	const struct record_options *options = recording->options;

	if (options->pid)
		snprintf(text, size, "pid %llu", (unsigned long long)options->pid);
	else
		snprintf(text, size, "%s",
			 options->command ? options->command[0] : "all processes");
}

/* CPU time is sampled; of the other types the figure that counts is their sum. */
static void describe_amount(const struct recording *recording, const struct recorded_type *type,
			    char *text, size_t size)
{
	const struct profile *merged = recording->merged;
	double total = (double)recorded_type_total(type, merged);
	uint32_t stacks = 0;

	recorded_type_stacks(type, merged, &stacks); // out of memory: 0
	if (!type->sources)
		snprintf(text, size, "%llu samples", (unsigned long long)recording->samples);
	else if (type->sources & SOURCE_MEMORY)
		snprintf(text, size, "%.1f MiB in %u stacks", total / (1 << 20), stacks);
	else
		snprintf(text, size, "%.3f s in %u stacks", total / NS_PER_SECOND, stacks);
}

/* "75 samples", of several types "75 samples, off-cpu 3.120 s in 12 stacks". */
static void describe_amounts(const struct recording *recording, const struct recorded_types *types,
			     char *text, size_t size)
{
	size_t used = 0;

	*text = '\0';
	for (uint32_t i = 0; i < types->count && used < size; i++) {
		const struct recorded_type *type = types->at[i];
		char amount[64];

		describe_amount(recording, type, amount, sizeof(amount));
		used += (size_t)snprintf(
			text + used, size - used, "%s%s%s%s", i ? ", " : "",
			types->count > 1 && type->sources ? recorded_type_spec(type)->word : "",
			types->count > 1 && type->sources ? " " : "", amount);
	}
}

static void report_empty(const struct recording *recording, const struct recording_file *file)
{
	if (!recorded_types_are_empty(&file->types, recording->merged))
		return;
	fprintf(stderr, "cairn record: %s\n",
		recorded_type_zero_hint(file->types.at[0], recording->idle_excluded != 0));
	if (file->is_old_kept)
		fprintf(stderr, "cairn record: nothing recorded; %s left as it was\n", file->path);
}

static void report_recording(const struct recording *recording)
{
	const struct record_options *options = recording->options;
	char amounts[AMOUNTS_BYTES], scope[96];

	if (options->command)
		report_command_end(recording);
	if (recording->has_exited)
		target_process_print_exit((pid_t)options->pid,
					  ns_between(recording->started_ns, recording->stopped_ns),
					  "cairn record");
	describe_scope(recording, scope, sizeof(scope));
	for (uint32_t i = 0; i < options->files.count; i++) {
		const struct recording_file *file = &options->files.at[i];

		describe_amounts(recording, &file->types, amounts, sizeof(amounts));
		if (!file->is_old_kept)
			fprintf(stderr, "wrote %s: ", file->path);
		fprintf(stderr, "%s of %s, %llu dropped\n", amounts, scope,
			(unsigned long long)recording->dropped);
		report_empty(recording, file);
	}
}

/* [{"path", "types": [{"type", "total", "stacks"}], "kept_old"}] */
static json_t *files_json(const struct recording *recording)
{
	const struct recording_files *files = &recording->options->files;
	json_t *list = json_array();

	for (uint32_t i = 0; i < files->count; i++) {
		const struct recorded_types *of_file = &files->at[i].types;
		json_t *types = json_array();

		for (uint32_t t = 0; t < of_file->count; t++) {
			uint32_t stacks = 0;

			recorded_type_stacks(of_file->at[t], recording->merged, &stacks);
			json_array_append_new(
				types,
				json_pack("{s:s, s:I, s:I}", "type", of_file->at[t]->type, "total",
					  (json_int_t)recorded_type_total(of_file->at[t],
									  recording->merged),
					  "stacks", (json_int_t)stacks));
		}
		json_array_append_new(list, json_pack("{s:s, s:o, s:b}", "path", files->at[i].path,
						      "types", types, "kept_old",
						      files->at[i].is_old_kept));
	}
	return list;
}

static void print_json(const struct recording *recording)
{
	json_line_print(json_pack("{s:o, s:I, s:I, s:f, s:I}", "files", files_json(recording),
				  "samples", (json_int_t)recording->samples, "dropped",
				  (json_int_t)recording->dropped, "seconds",
				  (double)ns_between(recording->started_ns, recording->stopped_ns) /
					  NS_PER_SECOND,
				  "idle_excluded", (json_int_t)recording->idle_excluded));
}

/* A shell's: the command's own, or that of the signal which killed it. */
static int exit_code_of(const struct recording *recording)
{
	const struct held_command *command = &recording->command;

	int code = EXIT_OK;

	if (recording->options->command && command->ended)
		code = WIFSIGNALED(command->wait_status)
			       ? EXIT_SIGNALED + WTERMSIG(command->wait_status)
			       : WEXITSTATUS(command->wait_status);
	return code == EXIT_OK && recording_files_are_old(&recording->options->files) ? EXIT_FAILED
										      : code;
}

static void report_idle(const struct recording *recording)
{
	if (recording->idle_excluded)
		fprintf(stderr, "%s: %.1f s of idle off-CPU time excluded; --idle includes it\n",
			recording->options->output,
			(double)recording->idle_excluded / NS_PER_SECOND);
}

static void report_full(const struct recording *recording)
{
	if (recording->is_full)
		fprintf(stderr,
			"cairn record: ended after %.0f s: a file with time holds %d samples; "
			"another format records for longer\n",
			(double)ns_between(recording->started_ns, recording->stopped_ns) /
				NS_PER_SECOND,
			TIMELINE_SAMPLES_MAX);
}

static int record(struct recording *recording, struct error *err)
{
	recording->opened_ns = clock_monotonic_ns();
	int rc = begin(recording, err);

	if (!rc)
		rc = run(recording, err);
	if (!rc)
		rc = write_files(recording, err);
	held_command_wait(&recording->command, recording->is_interrupted ? INTERRUPTED_WAIT_MS : 0);
	progress_clear();
	profiler_events_print(recording->events, "cairn record");
	if (rc)
		return rc;
	report_recording(recording);
	report_idle(recording);
	report_full(recording);
	if (recording->options->json)
		print_json(recording);
	return rc;
}

static void recording_deinit(struct recording *recording)
{
	held_command_stop(&recording->command);
	profiler_close(recording->profiler);
	confined_launcher_free(recording->launcher);
	event_log_free(recording->events);
	profile_free(recording->merged);
	cleanup_closep(&recording->pidfd);
	cleanup_closep(&recording->signal_fd);
}

int cmd_record(int argc, char **argv)
{
	_cleanup_(options_deinit) struct record_options options = { 0 };
	_cleanup_(recording_deinit) struct recording recording = {
		.options = &options,
		.pidfd = -1,
		.signal_fd = -1,
	};
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (!rc)
		rc = check(&options, &err);
	if (rc) {
		fprintf(stderr, "cairn record: %s\n", err.text);
		return EXIT_USAGE;
	}
	recording.events = event_log_new();
	if (!recording.events)
		error_set(&err, -ENOMEM, "out of memory");
	if (!recording.events || record(&recording, &err)) {
		fprintf(stderr, "cairn record: %s\n", err.text);
		return recording.interrupted_by ? EXIT_SIGNALED + recording.interrupted_by
						: EXIT_FAILED;
	}
	return exit_code_of(&recording);
}
