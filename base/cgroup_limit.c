// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup_limit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum { LINE_BYTES = PATH_MAX + 256 };

/** How a controller's limits are read. */
struct reading {
	const char *mount, *controller;
	cgroup_limit_fn *read;
};

static uint64_t smaller(uint64_t left, uint64_t right)
{
	return !left || (right && right < left) ? right : left;
}

// The smallest limit of the cgroup and of those above it. In a container the path may lie outside of what is mounted:
// then the mount's own root is the cgroup.
static uint64_t smallest_limit(const struct reading *reading, const char *mount, char *cgroup,
			       int version)
{
	char folder[2 * PATH_MAX];
	uint64_t limit = 0;

	for (;;) {
		snprintf(folder, sizeof(folder), "%s%s", mount, cgroup);
		limit = smaller(limit, reading->read(folder, version));
		char *slash = strrchr(cgroup, '/');
		if (!slash)
			return limit;
		*slash = 0;
	}
}

/** Is @controller one of those in "cpu,cpuacct"? */
static bool has_controller(const char *controllers, const char *controller)
{
	size_t size = strlen(controller);

	for (const char *at = controllers; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, controller, size) && (!at[size] || at[size] == ','))
			return true;
	}
	return false;
}

// A line of /proc/PID/cgroup: "0::/path" of version 2, "4:memory:/path" of version 1.
static uint64_t limit_of_line(const struct reading *reading, char *line)
{
	char *controllers = strchr(line, ':');
	char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
	char mount[PATH_MAX];

	if (!cgroup)
		return 0;
	*controllers++ = 0;
	*cgroup++ = 0;
	cgroup[strcspn(cgroup, "\n")] = 0;
	if (!*controllers)
		return smallest_limit(reading, reading->mount, cgroup, 2);
	if (!has_controller(controllers, reading->controller))
		return 0;
	snprintf(mount, sizeof(mount), "%s/%s", reading->mount, reading->controller);
	return smallest_limit(reading, mount, cgroup, 1);
}

uint64_t cgroup_limit_of(const char *cgroup_file, const char *mount, const char *controller,
			 cgroup_limit_fn *read)
{
	const struct reading reading = { mount, controller, read };
	_cleanup_fclose_ FILE *file = fopen(cgroup_file, "re");
	char line[LINE_BYTES];
	uint64_t limit = 0;

	while (file && fgets(line, sizeof(line), file))
		limit = smaller(limit, limit_of_line(&reading, line));
	return limit;
}
