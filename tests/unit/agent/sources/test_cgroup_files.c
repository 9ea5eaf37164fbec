// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "tests/test.h"

#include "agent/sources/cgroup_files.h"

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
	{ "no root", "1 1 0:1 x /a rw - cgroup2 cgroup2 rw\n", -ENOENT, NULL, false },
};

TEST(finds_a_controllers_mount)
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

#define OWN       "1 1 0:1 / /a rw - cgroup2 cgroup2 rw\n"
#define OF_HOST   "2 1 0:1 /../../.. /b ro - cgroup2 cgroup2 rw\n"
#define ONE_GROUP "3 1 0:1 /kubepods/pod1/c /c rw - cgroup2 cgroup2 rw\n"
#define ON_TOP    "4 1 0:1 /kubepods/pod1/c /a rw - cgroup2 cgroup2 rw\n"

static const struct {
	const char *what, *mountinfo, *mount, *root;
	uint32_t height;
} roots[] = {
	{ "the only one", OWN, "/a", "/", 0 },
	{ "a container's own, in the host's namespace", ONE_GROUP, "/c", "/kubepods/pod1/c", 0 },
	{ "the host's beside a container's own", OWN OF_HOST, "/b", "/../../..", 3 },
	{ "a container's own beside the host's", OF_HOST OWN, "/b", "/../../..", 3 },
	{ "the host's, in its namespace, beside one group", ONE_GROUP OWN, "/a", "/", 0 },
	{ "one on top of another", OWN ON_TOP, "/a", "/kubepods/pod1/c", 0 },
	{ "version 1 where version 2 is higher", OF_HOST V1_CPU, "/sys/fs/cgroup/cpu,cpuacct", "/",
	  0 },
	{ "another branch", "1 1 0:1 /../../x /a rw - cgroup2 cgroup2 rw\n", "/a", "/../../x", 0 },
};

TEST(prefers_the_highest_mount)
{
	for EACH (c, roots) {
		struct cgroup_hierarchy found = { 0 };

		EXPECT_EQ(0,
			  cgroup_find_hierarchy(c->mountinfo, strlen(c->mountinfo), "cpu", &found),
			  c->what);
		EXPECT_STR(c->mount, found.mount, c->what);
		EXPECT_STR(c->root, found.root, c->what);
		EXPECT_EQ(c->height, cgroup_hierarchy_height(&found), c->what);
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
	{ "another namespace's", "0::/../../kubepods/pod1\n", NULL, 0, "/../../kubepods/pod1" },
	{ "dots in a name", "0::/a..b/..c\n", NULL, 0, "/a..b/..c" },
	{ "no path", "0::\n", NULL, -EBADMSG, NULL },
	{ "garbage", ":::::\n\n::", NULL, -ENOENT, NULL },
	{ "nothing", "", NULL, -ENOENT, NULL },
};

TEST(finds_the_cgroup_of_a_process)
{
	for EACH (c, paths) {
		char path[CGROUP_PATH_BYTES] = "";

		EXPECT_EQ(c->rc, cgroup_find_path(c->text, strlen(c->text), c->controller, path),
			  c->what);
		EXPECT_STR(c->path ? c->path : "", path, c->what);
	}
}

TEST(refuses_a_long_path)
{
	char text[CGROUP_PATH_BYTES + 8], path[CGROUP_PATH_BYTES];

	memset(text, 'a', sizeof(text));
	memcpy(text, "0::/", 4);
	EXPECT_EQ(-EBADMSG, cgroup_find_path(text, sizeof(text), NULL, path), "long");
	EXPECT_EQ(0, cgroup_find_path(text, CGROUP_PATH_BYTES + 2, NULL, path),
		  "just short enough");
}

static const struct {
	const char *what, *root, *home, *seen;
	int rc;
	const char *path;
} mounted[] = {
	{ "the host's view", "/", "", "/kubepods/pod1/c", 0, "/kubepods/pod1/c" },
	{ "the host's root", "/", "", "/", 0, "/" },
	{ "another container, by our own mount", "/", "", "/../../pod2/c", -EBADMSG, NULL },
	{ "within our own mount", "/pod1/c", "", "/pod1/c/d", 0, "/d" },
	{ "our own mount", "/pod1/c", "", "/pod1/c", 0, "/" },
	{ "not within our own mount", "/pod1/c", "", "/pod2/c", -EBADMSG, NULL },
	{ "a name that only begins so", "/pod1/c", "", "/pod1/cd", -EBADMSG, NULL },
	{ "another pod's", "/../..", "/pod1/c", "/../../pod2/c", 0, "/pod2/c" },
	{ "another of our pod", "/../..", "/pod1/c", "/../d", 0, "/pod1/d" },
	{ "our pod", "/../..", "/pod1/c", "/..", 0, "/pod1" },
	{ "the root", "/../..", "/pod1/c", "/../..", 0, "/" },
	{ "ours", "/../..", "/pod1/c", "/", 0, "/pod1/c" },
	{ "below ours", "/../..", "/pod1/c", "/d/e", 0, "/pod1/c/d/e" },
	{ "a name that begins with dots", "/../..", "/pod1/c", "/../..d", 0, "/pod1/..d" },
	{ "another pod's, and ours is not known", "/../..", "", "/../../pod2/c", 0, "/pod2/c" },
	{ "another of our pod, which is not known", "/../..", "", "/../d", -EBADMSG, NULL },
	{ "above the mount", "/../..", "/pod1/c", "/../../../system", -EBADMSG, NULL },
	{ "within a mount of another branch", "/../pod2", "", "/../pod2/c", 0, "/c" },
	{ "outside of it", "/../pod2", "", "/../pod3/c", -EBADMSG, NULL },
	{ "up and down", "/", "", "/a/../../b", -EBADMSG, NULL },
};

TEST(finds_a_cgroup_below_its_mount)
{
	for EACH (c, mounted) {
		struct cgroup_hierarchy hierarchy = { .unified = true };
		char path[CGROUP_PATH_BYTES] = "";

		strcpy(hierarchy.root, c->root);
		strcpy(hierarchy.home, c->home);
		EXPECT_EQ(c->rc, cgroup_path_below_mount(&hierarchy, c->seen, path), c->what);
		EXPECT_STR(c->path ? c->path : "", path, c->what);
	}
}

TEST(refuses_a_long_joined_path)
{
	struct cgroup_hierarchy hierarchy = { .root = "/..", .home = "/home" };
	char seen[CGROUP_PATH_BYTES], path[CGROUP_PATH_BYTES] = "";

	memset(seen, 'a', sizeof(seen));
	seen[0] = '/';
	seen[CGROUP_PATH_BYTES - 5] = '\0';
	EXPECT_EQ(-EBADMSG, cgroup_path_below_mount(&hierarchy, seen, path), "long");
	seen[CGROUP_PATH_BYTES - 6] = '\0';
	EXPECT_EQ(0, cgroup_path_below_mount(&hierarchy, seen, path), "just short enough");
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

TEST(finds_numbers_by_key)
{
	for EACH (c, numbers) {
		uint64_t number = 0;

		EXPECT_EQ(c->rc,
			  cgroup_find_number(c->text, strlen(c->text), "throttled_time", &number),
			  c->what);
		EXPECT_EQ(c->number, number, c->what);
	}
}

RUN_TESTS(cmocka_unit_test(finds_a_controllers_mount), cmocka_unit_test(prefers_the_highest_mount),
	  cmocka_unit_test(finds_the_cgroup_of_a_process), cmocka_unit_test(refuses_a_long_path),
	  cmocka_unit_test(finds_a_cgroup_below_its_mount),
	  cmocka_unit_test(refuses_a_long_joined_path), cmocka_unit_test(finds_numbers_by_key))
