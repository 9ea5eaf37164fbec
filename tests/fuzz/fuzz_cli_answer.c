// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a collector answers to the commands that ask one: they print or refuse it, and a terminal sees no control
// character of it. The first byte chooses the command; then come answers as collector_set_answers() takes them.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cli/answering_collector.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PUSHED_FD = 200 };

static const struct command_line lines[] = {
	{ cmd_query, { "query", "web" } },
	{ cmd_query, { "query", "web", "--type", "off-cpu", "--group-by", "node" } },
	{ cmd_query, { "query", "--type", "wall" } },
	{ cmd_query, { "query", "web", "--json" } },
	{ cmd_diff, { "diff", "web", "--against", "1d" } },
	{ cmd_diff, { "diff", "{service=\"web\"}", "--all", "--sort", "total" } },
	{ cmd_diagnose, { "diagnose", "web" } },
	{ cmd_spikes, { "spikes", "--collector-http", "http://c" } },
	{ cmd_status, { "status", "--silent" } },
	{ cmd_status, { "status" } },
	{ cmd_delete, { "delete", "{}", "--dry-run" } },
	{ cmd_delete, { "delete", "web", "--yes", "--json" } },
	{ cmd_boost, { "boost", "web", "--hz", "99", "--for", "60s", "--wait", "0s" } },
	{ cmd_boost, { "boost", "--list" } },
	{ cmd_boost, { "boost", "--end", "3fa09c12" } },
	{ cmd_upload, { "upload", "--missing-only", "/proc/self/exe" } },
	{ cmd_push, { "push", "/proc/self/fd/200" } },
	{ cmd_push, { "push", "/proc/self/fd/200", "--json" } },
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

/** A file to push: collapsed stacks. */
static void make_pushed(void)
{
	static const char stacks[] = "main;work 3\nmain 4\n";
	_cleanup_close_ int fd = memfd_create("collapsed", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, stacks, sizeof(stacks) - 1) == sizeof(stacks) - 1);
	check(dup2(fd, PUSHED_FD) == PUSHED_FD);
}

/** The collector's JSON. */
static bool prints_as_is(const struct command_line *line)
{
	return line->run == cmd_query && line->words[2] && strcmp(line->words[2], "--json") == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static bool has_file;
	struct command_output output;

	if (!has_file) {
		make_pushed();
		has_file = true;
	}
	if (!size)
		return 0;
	const struct command_line *line = &lines[bytes[0] % ARRAY_SIZE(lines)];
	collector_set_answers(bytes + 1, size - 1);
	command_line_run(line, &output);
	check(output.exit_code >= EXIT_OK && output.exit_code <= EXIT_USAGE);
	check(prints_as_is(line) || is_for_terminal(output.out, output.out_size));
	check(is_for_terminal(output.errors, output.errors_size));
	command_output_deinit(&output);
	return 0;
}
