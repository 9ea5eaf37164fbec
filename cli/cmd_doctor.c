// SPDX-License-Identifier: Apache-2.0
// cairn doctor: check whether this node can be profiled. The agent does it, with the settings that it is to run with.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/command.h"

#define AGENT "cairn-agent"

static const char help[] =
	"Check whether this node can be profiled, and say what to do where it cannot.\n"
	"\n"
	"Usage: cairn doctor [SETTINGS OF cairn-agent]\n"
	"\n"
	"  cairn doctor --collector collector.example:7171\n"
	"  cairn doctor --config /etc/cairn/agent.yaml\n"
	"\n"
	"It checks the kernel, capabilities, cgroups, clock and disk, samples for half a second, "
	"and\n"
	"asks the collector whether it accepts profiles of this agent. The exit status is 1 if\n"
	"something is missing. `cairn-agent --help` lists the settings.\n";

/* The agent beside this program, else that of PATH. */
static void find_agent(char path[4096])
{
	ssize_t size = readlink("/proc/self/exe", path, 4096 - sizeof(AGENT));
	char *slash = NULL;

	if (size > 0) {
		path[size] = '\0';
		slash = strrchr(path, '/');
	}
	if (slash)
		strcpy(slash + 1, AGENT);
	if (!slash || access(path, X_OK))
		strcpy(path, AGENT);
}

int cmd_doctor(int argc, char **argv)
{
	_cleanup_free_ char **arguments = calloc((size_t)argc + 2, sizeof(*arguments));
	char path[4096];

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(help, stdout);
		return EXIT_OK;
	}
	if (!arguments) {
		fprintf(stderr, "cairn doctor: out of memory\n");
		return EXIT_FAILED;
	}
	find_agent(path);
	arguments[0] = "cairn doctor"; // who its mistakes are reported by
	arguments[1] = "--check";
	for (int i = 1; i < argc; i++)
		arguments[i + 1] = argv[i];
	execvp(path, arguments);
	fprintf(stderr, "cairn doctor: start %s: %s; install it beside cairn\n", path,
		strerror(errno));
	return EXIT_FAILED;
}
