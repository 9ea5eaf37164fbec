// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

static char folder[64];

static void write_file(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void make_folders(void)
{
	static const char *const names[] = { "pod", "pod/inner", "memory", "memory/job" };
	char path[256];

	snprintf(folder, sizeof(folder), "/tmp/cairn-test-memory-%d", getpid());
	mkdir(folder, 0700);
	for EACH (name, names) {
		snprintf(path, sizeof(path), "%s/%s", folder, *name);
		mkdir(path, 0700);
	}
	write_file("pod/memory.max", "1000000\n");
	write_file("pod/inner/memory.max", "max\n");
	write_file("memory/memory.limit_in_bytes", "9223372036854771712\n");
	write_file("memory/job/memory.limit_in_bytes", "2000000\n");
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
	snprintf(file, sizeof(file), "%s/cgroup", folder);
	for EACH (row, rows) {
		write_file("cgroup", row->cgroup);
		EXPECT_EQ(row->limit, memory_limit_of(file, folder), row->what);
	}
	EXPECT_EQ(0, memory_limit_of("/nowhere", folder), "no file");
}

TEST(the_machine_has_memory)
{
	assert_true(memory_limit_machine() > 64 << 20);
}

RUN_TESTS(cmocka_unit_test(reads_limits_of_both_versions), cmocka_unit_test(the_machine_has_memory))
