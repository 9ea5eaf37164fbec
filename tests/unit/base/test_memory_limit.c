// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.h"

#include "tests/unit/base/cgroup_fixture.h"

static void make_folders(void)
{
	cgroup_make("memory");
	cgroup_write("pod/memory.max", "1000000\n");
	cgroup_write("pod/inner/memory.max", "max\n");
	cgroup_write("memory/memory.limit_in_bytes", "9223372036854771712\n");
	cgroup_write("memory/job/memory.limit_in_bytes", "2000000\n");
}

static const struct {
	const char *what;
	const char *cgroup;
	uint64_t limit;
} rows[] = {
	{ "version 2, its own", "0::/pod\n", 1000000 },
	{ "version 2, of the one above", "0::/pod/inner\n", 1000000 },
	{ "version 2, none", "0::/other\n", 0 },
	{ "version 1", "5:cpu,cpuacct:/pod\n4:memory:/job\n", 2000000 },
	{ "version 1, among others", "4:hugetlb,memory:/job\n", 2000000 },
	{ "version 1, none", "4:memory:/other\n", 0 },
	{ "both: the smaller", "4:memory:/job\n0::/pod\n", 1000000 },
	{ "no such controller", "4:memoryless:/job\n", 0 },
	{ "rubbish", "no colon\n:\n4\n", 0 },
	{ "nothing", "", 0 },
};

TEST(reads_limits_of_both_versions)
{
	char file[128];

	make_folders();
	snprintf(file, sizeof(file), "%s/cgroup", cgroup_folder);
	for EACH (row, rows) {
		cgroup_write("cgroup", row->cgroup);
		EXPECT_EQ(row->limit, memory_limit_of(file, cgroup_folder), row->what);
	}
	EXPECT_EQ(0, memory_limit_of("/nowhere", cgroup_folder), "no file");
}

TEST(the_machine_has_memory)
{
	assert_true(memory_limit_machine() > 64 << 20);
}

RUN_TESTS(cmocka_unit_test(reads_limits_of_both_versions), cmocka_unit_test(the_machine_has_memory))
