// SPDX-License-Identifier: Apache-2.0
// cairn dump: the stack of every thread of a process, now. Unwinds in user space: it needs no collector
// and no BPF program.

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/dump/process_dump.h"
#include "agent/guard/watchdog.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"
#include "base/config/config.h"
#include "cli/command.h"
#include "cli/dump_json.h"
#include "cli/dump_text.h"
#include "cli/line_launcher.h"
#include "cli/pid.h"

enum {
	// Unwind tables and symbols of gigabytes of code take some seconds, source lines 30 s at most.
	DUMP_MS_MAX = 120 * 1000,
};

struct dump_arguments {
	uint64_t pid;
	uint64_t thread;
	bool json, no_native, no_python, no_kernel, lines, no_pause, all, verbose;
};

static const char notes[] =
	"Blocked threads are shown with their wait: the lock and its owner, the file, the\n"
	"socket and its peer, the GIL. The process is paused for some milliseconds and\n"
	"resumes even if cairn is killed. Threads with equal stacks are shown once.\n"
	"\n"
	"  cairn dump 1234\n"
	"  cairn dump 1234 --no-native           # only Python, as a traceback shows it\n"
	"  cairn dump 1234 --json | jq '.threads[] | select(.wait.kind == \"mutex\")'\n";

static int parse_words(int argc, char **argv, int first_word, struct dump_arguments *arguments,
		       struct error *err)
{
	if (first_word == argc)
		return error_set(err, -EINVAL, "PID is missing; see `cairn dump --help`");
	if (first_word + 1 < argc)
		return error_set(err, -EINVAL, "more than one PID: \"%.60s\"",
				 argv[first_word + 1]);
	if (pid_parse(argv[first_word], &arguments->pid))
		return error_set(err, -EINVAL, "\"%.60s\" is not the id of a process",
				 argv[first_word]);
	if (arguments->no_native && arguments->no_python)
		return error_set(err, -EINVAL, "--no-native and --no-python leave nothing to show");
	return 0;
}

static int parse(int argc, char **argv, struct dump_arguments *arguments,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "json", 0, CONFIG_BOOL, &arguments->json, NULL, 0, 0, NULL,
		  "print JSON (docs/dump.md)" },
		{ "all", 0, CONFIG_BOOL, &arguments->all, NULL, 0, 0, NULL,
		  "show every thread, also those with equal stacks" },
		{ "thread", 't', CONFIG_UINT, &arguments->thread, NULL, 1, PID_MAX, "TID",
		  "show only this thread" },
		{ "no-native", 0, CONFIG_BOOL, &arguments->no_native, NULL, 0, 0, NULL,
		  "show only Python frames" },
		{ "no-python", 0, CONFIG_BOOL, &arguments->no_python, NULL, 0, 0, NULL,
		  "show the interpreter's own functions instead of Python frames" },
		{ "no-kernel", 0, CONFIG_BOOL, &arguments->no_kernel, NULL, 0, 0, NULL,
		  "hide kernel frames" },
		{ "lines", 'l', CONFIG_BOOL, &arguments->lines, NULL, 0, 0, NULL,
		  "resolve source lines and inlined calls of native code; slower" },
		{ "no-pause", 0, CONFIG_BOOL, &arguments->no_pause, NULL, 0, 0, NULL,
		  "do not pause the process; running threads then have no stack" },
		{ "verbose", 'v', CONFIG_BOOL, &arguments->verbose, NULL, 0, 0, NULL,
		  "print the pause and the dump's overhead" },
	};
	const struct config_program program = {
		.name = "cairn dump",
		.summary = "Show the stack of every thread of a process: Python, native and kernel "
			   "frames.",
		.usage = "cairn dump PID [OPTIONS]",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word = argc;
	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	return parse_words(argc, argv, first_word, arguments, err);
}

/* Ctrl-Z must not stop us while we hold another process. */
static void defer_stops(sigset_t *ret_before)
{
	sigset_t stops;

	sigemptyset(&stops);
	sigaddset(&stops, SIGTSTP);
	sigaddset(&stops, SIGTTIN);
	sigaddset(&stops, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stops, ret_before);
}

static int write_all(const struct buffer *text, struct error *err)
{
	for (size_t written = 0; written < text->size;) {
		ssize_t size = write(STDOUT_FILENO, text->bytes + written, text->size - written);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0 && errno == EPIPE) // the reader (`| head`) has exited
			return 0;
		if (size < 0)
			return error_errno(err, -errno, "write standard output");
		written += (size_t)size;
	}
	return 0;
}

static int show(const struct process_dump *dump, const struct dump_arguments *arguments,
		struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	const char *no_color = getenv("NO_COLOR");
	const struct dump_text_options options = {
		.all = arguments->all,
		.python_only = arguments->no_native,
		.verbose = arguments->verbose,
		.colour = isatty(STDOUT_FILENO) && !(no_color && *no_color),
	};
	int rc = 0;

	if (arguments->json)
		rc = dump_json_write(dump, arguments->no_native, &text);
	else
		dump_text_write(dump, &options, &text);
	if (!rc)
		rc = text.rc;
	return rc ? error_errno(err, rc, "the dump") : write_all(&text, err);
}

static int dump_process(const struct dump_arguments *arguments, struct error *err)
{
	char folder[PATH_MAX];
	bool has_folder = cache_folder_default(folder, sizeof(folder)) == 0;
	struct confined_launcher *launcher = line_launcher_start(arguments->lines, "cairn dump");
	const struct dump_options options = {
		.tid = (pid_t)arguments->thread,
		.no_pause = arguments->no_pause,
		.no_python = arguments->no_python,
		.no_kernel = arguments->no_kernel || arguments->no_native,
		.line_launcher = launcher,
		.cache_folder = has_folder ? folder : NULL,
	};
	const struct watchdog_options watchdog = {
		.subject = "cairn dump",
		.advice = "the process runs on; report this line to cairn's developers",
		.turn_ms_max = DUMP_MS_MAX,
	};
	struct process_dump *dump;
	sigset_t before;

	defer_stops(&before);
	int rc = watchdog_start(&watchdog, err);
	if (!rc) {
		watchdog_begin_turn("reading the process");
		rc = process_dump_take((pid_t)arguments->pid, &options, &dump, err);
		watchdog_stop();
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	confined_launcher_free(launcher);
	if (rc)
		return rc;
	rc = show(dump, arguments, err);
	process_dump_free(dump);
	return rc;
}

int cmd_dump(int argc, char **argv)
{
	struct dump_arguments arguments = { 0 };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int rc = parse(argc, argv, &arguments, &outcome, &err);

	if (!rc && outcome == CONFIG_EXIT)
		return EXIT_OK;
	if (rc) {
		fprintf(stderr, "cairn dump: %s\n", err.text);
		return EXIT_USAGE;
	}
	if (dump_process(&arguments, &err)) {
		fprintf(stderr, "cairn dump: %s\n", err.text);
		return EXIT_FAILED;
	}
	return EXIT_OK;
}
