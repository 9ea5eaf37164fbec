// SPDX-License-Identifier: Apache-2.0
// The CPython interpreters of this machine, for tests that compare with the real thing:
// CAIRN_PYTHONS (paths, separated by colons), or else pyenv's and the system's.
#pragma once

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PYTHONS_MAX = 32, PYTHON_PATH_BYTES = 512 };

struct python_program {
	char path[PYTHON_PATH_BYTES];
	unsigned minor;
};

static struct python_program python_programs[PYTHONS_MAX];
static unsigned python_program_count;

/* One that does not start, or is no CPython 3.6 or newer, is skipped. */
static inline void add_python(const char *path)
{
	struct python_program *program = &python_programs[python_program_count];
	char command[PYTHON_PATH_BYTES + 128];

	if (python_program_count == PYTHONS_MAX || strlen(path) >= sizeof(program->path))
		return;
	snprintf(
		command, sizeof(command),
		"'%s' -c 'import sys; print(sys.version_info[0], sys.version_info[1])' 2>/dev/null",
		path);
	FILE *output = popen(command, "re");
	unsigned major = 0, minor = 0;

	if (output && fscanf(output, "%u %u", &major, &minor) == 2 && major == 3 && minor >= 6) {
		strcpy(program->path, path);
		program->minor = minor;
		python_program_count++;
	}
	if (output)
		pclose(output);
}

static inline void add_pythons(const char *pattern)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			add_python(found.gl_pathv[i]);
		globfree(&found);
	}
}

static inline void find_pythons(void)
{
	const char *given = getenv("CAIRN_PYTHONS"), *home = getenv("HOME");
	char text[4096];

	python_program_count = 0;
	if (given) {
		snprintf(text, sizeof(text), "%s", given);
		for (char *rest, *path = strtok_r(text, ":", &rest); path;
		     path = strtok_r(NULL, ":", &rest))
			add_python(path);
		return;
	}
	snprintf(text, sizeof(text), "%s/.pyenv/versions/*/bin/python3", home ? home : "");
	add_pythons(text);
	add_pythons("/usr/bin/python3");
}
