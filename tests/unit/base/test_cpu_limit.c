// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_limit.h"

#include <sched.h>

#include "tests/unit/base/cgroup_fixture.h"

static void make_folders(void)
{
	cgroup_make("cpu");
	cgroup_write("pod/cpu.max", "250000 100000\n");
	cgroup_write("pod/inner/cpu.max", "max 100000\n");
	cgroup_write("cpu/cpu.cfs_quota_us", "-1\n");
	cgroup_write("cpu/cpu.cfs_period_us", "100000\n");
	cgroup_write("cpu/job/cpu.cfs_quota_us", "50000\n");
	cgroup_write("cpu/job/cpu.cfs_period_us", "100000\n");
}

static const struct {
	const char *what;
	const char *cgroup;
	uint32_t cpus;
} rows[] = {
	{ "version 2, its own, rounded up", "0::/pod\n", 3 },
	{ "version 2, of the one above", "0::/pod/inner\n", 3 },
	{ "version 2, none", "0::/other\n", 0 },
	{ "version 1, a half", "4:cpu,cpuacct:/job\n", 1 },
	{ "version 1, none", "4:cpu,cpuacct:/other\n", 0 },
	{ "both: the smaller", "4:cpuacct,cpu:/job\n0::/pod\n", 1 },
	{ "no such controller", "4:cpuset:/job\n5:cpuacct:/job\n", 0 },
};

TEST(reads_quotas_of_both_versions)
{
	char file[128];

	make_folders();
	snprintf(file, sizeof(file), "%s/cgroup", cgroup_folder);
	for EACH (row, rows) {
		cgroup_write("cgroup", row->cgroup);
		EXPECT_EQ(row->cpus, cpu_limit_of(file, cgroup_folder), row->what);
	}
}

TEST(counts_cpus_it_may_run_on)
{
	cpu_set_t before, one;

	assert_int_equal(0, sched_getaffinity(0, sizeof(before), &before));
	assert_true(cpu_limit() >= 1);
	assert_true(cpu_limit() <= (uint32_t)CPU_COUNT(&before));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(0, sched_setaffinity(0, sizeof(one), &one));
	EXPECT_EQ(1, cpu_limit(), "on one");
	assert_int_equal(0, sched_setaffinity(0, sizeof(before), &before));
}

RUN_TESTS(cmocka_unit_test(reads_quotas_of_both_versions),
	  cmocka_unit_test(counts_cpus_it_may_run_on))
