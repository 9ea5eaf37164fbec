// SPDX-License-Identifier: Apache-2.0
// For tests: finds and loads the doubles below the folder of the test programs.
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/** The path of the double @soname. */
static inline const char *double_path(const char *soname, char path[PATH_MAX])
{
	char self[PATH_MAX - 64] = { 0 };

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return NULL;
	char *tests = strstr(self, "/tests/");
	for (char *next; tests && (next = strstr(tests + 1, "/tests/"));)
		tests = next;
	if (!tests)
		return NULL;
	*tests = 0;
	snprintf(path, PATH_MAX, "%s/tests/gpu/%s", self, soname);
	return path;
}

/** Load the double at @path until the test ends, and return what its function @name returns. */
static inline void *double_state(const char *path, const char *name)
{
	void *library = dlopen(path, RTLD_NOW), *(*find)(void) = NULL;

	if (library)
		*(void **)&find = dlsym(library, name);
	if (!find) {
		fprintf(stderr, "%s\n", dlerror());
		return NULL;
	}
	return find();
}
