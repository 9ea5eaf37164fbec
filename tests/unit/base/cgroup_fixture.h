// SPDX-License-Identifier: Apache-2.0
// Files as the kernel shows a process's cgroup.
#pragma once

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

static char cgroup_folder[64];

static inline void cgroup_write(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", cgroup_folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/** Cgroups of version 2 are "pod" and "pod/inner", of version 1 "job" of @controller. */
static inline void cgroup_make(const char *controller)
{
	const char *const names[] = { "", "/pod", "/pod/inner", "/%s", "/%s/job" };
	char name[64], path[256];

	snprintf(cgroup_folder, sizeof(cgroup_folder), "/tmp/cairn-test-%s-%d", controller,
		 getpid());
	for EACH (at, names) {
		snprintf(name, sizeof(name), *at, controller);
		snprintf(path, sizeof(path), "%s%s", cgroup_folder, name);
		mkdir(path, 0700);
	}
}
