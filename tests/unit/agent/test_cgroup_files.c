// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "tests/test.h"

#include "agent/cgroup_files.h"

#define V1_CPU                                                                          \
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup " \
	"rw,cpu,cpuacct\n"
#define V1_MEMORY "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define V2        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
#define OTHER     "31 23 0:28 / /sys/fs/cgroup rw - tmpfs cpu rw,mode=755\n"

static const struct {
	const char *what, *mountinfo;
	int rc;
	const char *mount;
	bool unified;
} hierarchies[] = {
	{ "version 1 alone", OTHER V1_MEMORY V1_CPU, 0, "/sys/fs/cgroup/cpu,cpuacct", false },
	{ "version 2 alone", OTHER V2, 0, "/sys/fs/cgroup/unified", true },
	{ "both, version 2 first", V2 V1_CPU, 0, "/sys/fs/cgroup/cpu,cpuacct", false },
	{ "version 1 without this controller", V1_MEMORY V2, 0, "/sys/fs/cgroup/unified", true },
	{ "none", OTHER, -ENOENT, NULL, false },
	{ "nothing", "", -ENOENT, NULL, false },
	{ "a word that only begins so", "32 31 0:29 / /a rw - cgroup cgroup rw,cpuset\n", -ENOENT,
	  NULL, false },
	{ "a cut line", "32 31 0:29 / /a", -ENOENT, NULL, false },
	{ "an escaped path", "1 1 0:1 / /a\\040b rw - cgroup2 cgroup2 rw\n", -ENOENT, NULL, false },
	{ "no newline at the end", "1 1 0:1 / /a rw - cgroup2 cgroup2 rw", 0, "/a", true },
};

TEST(a_controllers_groups_are_found)
{
	for EACH (c, hierarchies) {
		struct cgroup_hierarchy found = { 0 };

		EXPECT_EQ(c->rc,
			  cgroup_find_hierarchy(c->mountinfo, strlen(c->mountinfo), "cpu", &found),
			  c->what);
		if (c->rc)
			continue;
		EXPECT_STR(c->mount, found.mount, c->what);
		EXPECT_EQ(c->unified, found.unified, c->what);
	}
}

static const struct {
	const char *what, *text, *controller;
	int rc;
	const char *path;
} paths[] = {
	{ "version 1", "4:memory:/m\n2:cpu,cpuacct:/kubepods/pod1\n0::/u\n", "cpu", 0,
	  "/kubepods/pod1" },
	{ "version 2", "4:memory:/m\n0::/kubepods.slice/x:y\n", NULL, 0, "/kubepods.slice/x:y" },
	{ "the root", "0::/\n", NULL, 0, "/" },
	{ "not there", "4:memory:/m\n", "cpu", -ENOENT, NULL },
	{ "no version 2", "4:memory:/m\n", NULL, -ENOENT, NULL },
	{ "another namespace's", "0::/../../kubepods/pod1\n", NULL, -EBADMSG, NULL },
	{ "dots in a name", "0::/a..b/..c\n", NULL, 0, "/a..b/..c" },
	{ "no path", "0::\n", NULL, -EBADMSG, NULL },
	{ "garbage", ":::::\n\n::", NULL, -ENOENT, NULL },
	{ "nothing", "", NULL, -ENOENT, NULL },
};

TEST(a_process_group_is_found)
{
	for EACH (c, paths) {
		char path[CGROUP_PATH_BYTES] = "";

		EXPECT_EQ(c->rc, cgroup_find_path(c->text, strlen(c->text), c->controller, path),
			  c->what);
		EXPECT_STR(c->path ? c->path : "", path, c->what);
	}
}

TEST(a_path_that_is_too_long_is_refused)
{
	char text[CGROUP_PATH_BYTES + 8], path[CGROUP_PATH_BYTES];

	memset(text, 'a', sizeof(text));
	memcpy(text, "0::/", 4);
	EXPECT_EQ(-EBADMSG, cgroup_find_path(text, sizeof(text), NULL, path), "long");
	EXPECT_EQ(0, cgroup_find_path(text, CGROUP_PATH_BYTES + 2, NULL, path),
		  "just short enough");
}

static const struct {
	const char *what, *text;
	int rc;
	uint64_t number;
} numbers[] = {
	{ "version 1", "nr_periods 10\nnr_throttled 3\nthrottled_time 12345\n", 0, 12345 },
	{ "the last line is cut", "throttled_time 12", 0, 12 },
	{ "the largest", "throttled_time 18446744073709551615\n", 0, UINT64_MAX },
	{ "too large", "throttled_time 18446744073709551616\n", -EBADMSG, 0 },
	{ "no number", "throttled_time \n", -EBADMSG, 0 },
	{ "below zero", "throttled_time -1\n", -EBADMSG, 0 },
	{ "another key", "throttled_times 1\nthrottled_tim 2\n", -ENOENT, 0 },
	{ "nothing", "", -ENOENT, 0 },
};

TEST(numbers_are_found_by_key)
{
	for EACH (c, numbers) {
		uint64_t number = 0;

		EXPECT_EQ(c->rc,
			  cgroup_find_number(c->text, strlen(c->text), "throttled_time", &number),
			  c->what);
		EXPECT_EQ(c->number, number, c->what);
	}
}

RUN_TESTS(cmocka_unit_test(a_controllers_groups_are_found),
	  cmocka_unit_test(a_process_group_is_found),
	  cmocka_unit_test(a_path_that_is_too_long_is_refused),
	  cmocka_unit_test(numbers_are_found_by_key))
