// SPDX-License-Identifier: Apache-2.0
// Finding the doubles that make puts beside a test program.
#pragma once

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/** The path of the double @soname. */
static inline const char *double_path(const char *soname, char path[PATH_MAX])
{
	char self[PATH_MAX - 64] = { 0 };

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return NULL;
	snprintf(path, PATH_MAX, "%s/../gpu/%s", dirname(self), soname);
	return path;
}

/** Load the double at @path for as long as the test runs, and give what its function @name does. */
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
