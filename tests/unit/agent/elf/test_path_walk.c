// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

struct entered {
	char last[256];
	const char *refused; // NULL: none
};

static int enter(void *context, const char *path)
{
	struct entered *entered = context;

	snprintf(entered->last, sizeof(entered->last), "%s", path);
	return entered->refused && strcmp(entered->refused, path) == 0 ? -EBUSY : 0;
}

static void run(const char *command, const char *folder)
{
	char text[512];

	snprintf(text, sizeof(text), command, folder);
	assert_int_equal(0, system(text));
}

static char folder[] = "/tmp/cairn-walk-XXXXXX";

static int begin(void)
{
	strcpy(folder, "/tmp/cairn-walk-XXXXXX");
	assert_non_null(mkdtemp(folder));
	run("cd %s && mkdir -p a/b c && echo x > a/b/file && ln -s ../a/b c/up && ln -s /a/b/file "
	    "abs && ln -s loop loop "
	    "&& ln -s / c/top && ln -s ../../../../a escape",
	    folder);
	return open(folder, O_PATH | O_DIRECTORY);
}

static void end(int root)
{
	close(root);
	run("rm -r %s", folder);
}

TEST(follows_links_inside_the_root)
{
	static const struct {
		const char *path;
		bool no_follow;
		int rc; // 0: the file
		const char *last;
	} rows[] = {
		{ "/a/b/file", false, 0, "/a/b/file" },
		{ "a//b/./file", false, 0, "/a/b/file" },
		{ "/c/up/file", false, 0, "/a/b/file" },
		{ "/c/up/../b/file", false, 0, "/a/b/file" },
		{ "/abs", false, 0, "/a/b/file" },
		{ "/../../a/b/file", false, 0, "/a/b/file" },
		{ "/escape/b/file", false, 0, "/a/b/file" },
		{ "/c/top/c/top/abs", false, 0, "/a/b/file" },
		{ "/c/up/file", true, 0, "/a/b/file" },
		{ "/loop", false, -ELOOP, "/loop" },
		{ "/none/file", false, -ENOENT, "/none" },
		{ "/a/b/file/more", false, -ENOTDIR, "/a/b/file/more" },
	};
	int root = begin();
	struct stat wanted, found;

	assert_int_equal(0, fstatat(root, "a/b/file", &wanted, 0));
	for EACH (row, rows) {
		struct entered entered = { 0 };
		int fd = path_walk(root, row->path, row->no_follow, enter, &entered);

		EXPECT_EQ(row->rc, fd < 0 ? fd : 0, row->path);
		EXPECT_STR(row->last, entered.last, row->path);
		if (fd < 0)
			continue;
		assert_int_equal(0, fstat(fd, &found));
		EXPECT_EQ(wanted.st_ino, found.st_ino, row->path);
		close(fd);
	}
	end(root);
}

TEST(opens_a_last_link_itself_if_asked)
{
	int root = begin();
	struct entered entered = { 0 };
	struct stat status;
	int fd = path_walk(root, "/abs", true, enter, &entered);

	assert_int_equal(0, fstat(fd, &status));
	assert_true(S_ISLNK(status.st_mode));
	close(fd);
	end(root);
}

TEST(enters_nothing_that_is_refused)
{
	int root = begin();
	struct entered entered = { .refused = "/a/b" };

	assert_int_equal(-EBUSY, path_walk(root, "/c/up/file", false, enter, &entered));
	assert_string_equal("/a/b", entered.last);
	end(root);
}

RUN_TESTS(cmocka_unit_test(follows_links_inside_the_root),
	  cmocka_unit_test(opens_a_last_link_itself_if_asked),
	  cmocka_unit_test(enters_nothing_that_is_refused))
