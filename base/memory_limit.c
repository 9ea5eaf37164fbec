// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

// Version 1 writes "no limit" as the largest multiple of a page.
#define NO_LIMIT (1ULL << 60)

enum { LINE_BYTES = PATH_MAX + 256 };

static uint64_t read_limit(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	unsigned long long limit;

	// "max" is no number.
	if (!file || fscanf(file, "%llu", &limit) != 1 || limit >= NO_LIMIT)
		return 0;
	return limit;
}

static uint64_t smaller(uint64_t left, uint64_t right)
{
	return !left || (right && right < left) ? right : left;
}

// The smallest limit of the cgroup and of those above it. In a container the path may lie outside of what is mounted:
// then the mount's own root is the cgroup.
static uint64_t smallest_limit(const char *mount, char *cgroup, const char *name)
{
	char path[2 * PATH_MAX];
	uint64_t limit = 0;

	for (;;) {
		snprintf(path, sizeof(path), "%s%s/%s", mount, cgroup, name);
		limit = smaller(limit, read_limit(path));
		char *slash = strrchr(cgroup, '/');
		if (!slash)
			return limit;
		*slash = 0;
	}
}

static bool is_memory(const char *controllers)
{
	const char *at = strstr(controllers, "memory");

	return at && (at == controllers || at[-1] == ',') && (!at[6] || at[6] == ',');
}

// A line of /proc/PID/cgroup: "0::/path" of version 2, "4:memory:/path" of version 1.
static uint64_t limit_of_line(char *line, const char *mount)
{
	char *controllers = strchr(line, ':');
	char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
	char folder[PATH_MAX];

	if (!cgroup)
		return 0;
	*controllers++ = 0;
	*cgroup++ = 0;
	cgroup[strcspn(cgroup, "\n")] = 0;
	if (!*controllers)
		return smallest_limit(mount, cgroup, "memory.max");
	if (!is_memory(controllers))
		return 0;
	snprintf(folder, sizeof(folder), "%s/memory", mount);
	return smallest_limit(folder, cgroup, "memory.limit_in_bytes");
}

uint64_t memory_limit_of(const char *cgroup_file, const char *mount)
{
	_cleanup_fclose_ FILE *file = fopen(cgroup_file, "re");
	char line[LINE_BYTES];
	uint64_t limit = 0;

	while (file && fgets(line, sizeof(line), file))
		limit = smaller(limit, limit_of_line(line, mount));
	return limit;
}

uint64_t memory_limit_cgroup(void)
{
	return memory_limit_of("/proc/self/cgroup", "/sys/fs/cgroup");
}

uint64_t memory_limit_machine(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t memory_resident(void)
{
	_cleanup_fclose_ FILE *statm = fopen("/proc/self/statm", "re");
	unsigned long long pages;

	// proc(5): size and resident, in pages.
	if (!statm || fscanf(statm, "%*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}
