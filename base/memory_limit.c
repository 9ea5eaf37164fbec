// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup_limit.h"
#include "base/cleanup.h"

// Version 1 writes "no limit" as the largest multiple of a page.
#define NO_LIMIT (1ULL << 60)

static uint64_t read_limit(const char *folder, int version)
{
	char path[2 * PATH_MAX];
	unsigned long long limit;

	snprintf(path, sizeof(path), "%s/%s", folder,
		 version == 1 ? "memory.limit_in_bytes" : "memory.max");
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	// "max" is no number.
	if (!file || fscanf(file, "%llu", &limit) != 1 || limit >= NO_LIMIT)
		return 0;
	return limit;
}

uint64_t memory_limit_of(const char *cgroup_file, const char *mount)
{
	return cgroup_limit_of(cgroup_file, mount, "memory", read_limit);
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
