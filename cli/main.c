// SPDX-License-Identifier: Apache-2.0
// cairn: the command line. Finds the subcommand and hands over.

#include <stdio.h>
#include <string.h>

#include "agent/symbols/source_line_worker.h"
#include "base/cleanup.h"
#include "base/confined/confined_launcher.h"
#include "base/standard_streams.h"
#include "base/version.h"
#include "cli/command.h"

static const struct command commands[] = {
	{ "top", "show the functions that use CPU or block, live", cmd_top },
	{ "record", "record processes or a command to a file", cmd_record },
	{ "dump", "show the stack of every thread of a process now", cmd_dump },
	{ "gpu-kernels", "measure how long the GPU kernels of a process run", cmd_gpu_kernels },
	{ "status", "show a collector's agents, and which went silent", cmd_status },
	{ "query", "get a merged profile from a collector", cmd_query },
	{ "diff", "compare two profiles of a collector", cmd_diff },
	{ "diagnose", "get the bottleneck of a service from a collector", cmd_diagnose },
	{ "spikes", "find when services left their usual range, and why", cmd_spikes },
	{ "boost", "let agents sample more, or not at all, for a while", cmd_boost },
	{ "push", "send profiles of other profilers to a collector", cmd_push },
	{ "upload", "upload debug files, so that stripped code gets names", cmd_upload },
	{ "delete", "delete what a collector has stored of some series", cmd_delete },
	{ "doctor", "check whether this node can be profiled", cmd_doctor },
};

static const struct confined_task *const confined_tasks[] = { &source_line_task };

static void print_help(FILE *stream)
{
	fprintf(stream, "cairn profiles every process of this machine or of a fleet.\n\n"
			"Usage: cairn COMMAND [OPTIONS]\n\nCommands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(stream, "  %-11s %s\n", commands[i].name, commands[i].summary);
	fprintf(stream, "\n`cairn COMMAND --help` explains each command. top, record, dump and\n"
			"gpu-kernels need no collector, but root (or the agent's "
			"capabilities).\n\nOptions:\n"
			"  --help     show this and exit\n"
			"  --version  show the version and exit\n");
}

static int refuse_unknown(const char *name)
{
	const struct command *nearest = command_nearest(commands, ARRAY_SIZE(commands), name);

	if (name[0] == '-')
		fprintf(stderr, "cairn: unknown option \"%.40s\"; see `cairn --help`\n", name);
	else if (nearest)
		fprintf(stderr, "cairn: unknown command \"%.40s\"; did you mean \"%s\"?\n", name,
			nearest->name);
	else
		fprintf(stderr, "cairn: unknown command \"%.40s\"; see `cairn --help`\n", name);
	return EXIT_USAGE;
}

/* `cairn help record` is `cairn record --help`. */
static int help(const char *name)
{
	char *argv[] = { (char *)name, "--help", NULL };
	const struct command *command;

	if (!name) {
		print_help(stdout);
		return EXIT_OK;
	}
	command = command_find(commands, ARRAY_SIZE(commands), name);
	return command ? command->run(2, argv) : refuse_unknown(name);
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (!*name) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(name, "help") == 0)
		return help(argc > 2 ? argv[2] : NULL);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return help(NULL);
	if (strcmp(name, "--version") == 0) {
		printf("cairn %s\n", CAIRN_VERSION);
		return EXIT_OK;
	}

	const struct command *command = command_find(commands, ARRAY_SIZE(commands), name);
	return command ? command->run(argc - 1, argv + 1) : refuse_unknown(name);
}

int main(int argc, char **argv)
{
	if (confined_launcher_is_wanted(argc, argv))
		return confined_launcher_serve(confined_tasks, ARRAY_SIZE(confined_tasks));
	standard_streams_occupy();
	return standard_streams_finish("cairn", run(argc, argv));
}
