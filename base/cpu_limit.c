// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_limit.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup_limit.h"
#include "base/cleanup.h"

/** Read one number or two. Returns how many are there: "max" is none, nor is -1. */
static int read_numbers(const char *folder, const char *name, unsigned long ret_numbers[2])
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	int count = file ? fscanf(file, "%lu %lu", &ret_numbers[0], &ret_numbers[1]) : 0;
	return count > 0 && ret_numbers[0] > LONG_MAX ? 0 : count;
}

/** In CPUs. */
static uint64_t read_quota(const char *folder, int version)
{
	unsigned long quota[2], period[2];

	if (version == 2) {
		if (read_numbers(folder, "cpu.max", quota) != 2)
			return 0;
		period[0] = quota[1];
	} else if (read_numbers(folder, "cpu.cfs_quota_us", quota) != 1 ||
		   read_numbers(folder, "cpu.cfs_period_us", period) != 1) {
		return 0;
	}
	return period[0] ? quota[0] / period[0] + (quota[0] % period[0] > 0) : 0;
}

uint32_t cpu_limit_of(const char *cgroup_file, const char *mount)
{
	uint64_t cpus = cgroup_limit_of(cgroup_file, mount, "cpu", read_quota);

	return cpus < UINT32_MAX ? (uint32_t)cpus : UINT32_MAX;
}

/** 0: the kernel does not say, as with more than CPU_SETSIZE of them. */
static uint32_t allowed_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? 0 : (uint32_t)CPU_COUNT(&set);
}

uint32_t cpu_limit(void)
{
	uint32_t allowed = allowed_cpus(),
		 quota = cpu_limit_of("/proc/self/cgroup", "/sys/fs/cgroup");

	if (!allowed)
		allowed = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	return quota && quota < allowed ? quota : allowed;
}
