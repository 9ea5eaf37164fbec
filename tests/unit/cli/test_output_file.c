// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/output_file.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/cairn-output-XXXXXX");
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink("out.svg");
	unlink("out.svg.partial");
	unlink("victim");
	rmdir("directory.svg");
	return chdir("/") || rmdir(folder);
}

static size_t size_of(const char *path)
{
	struct stat status;

	return stat(path, &status) ? SIZE_MAX : (size_t)status.st_size;
}

TEST(renames_only_complete_files)
{
	struct output_file file = { 0 };
	struct buffer content = { 0 };
	struct error err = { 0 };

	buffer_append_string(&content, "content");
	assert_int_equal(0, output_file_open("out.svg", &file, &err));
	assert_int_not_equal(0, access("out.svg", F_OK));
	assert_int_equal(0, access("out.svg.partial", F_OK));
	assert_int_equal(0, output_file_finish(&file, &content, &err));
	EXPECT_EQ(7, size_of("out.svg"), "whole content");
	assert_int_not_equal(0, access("out.svg.partial", F_OK));
	buffer_deinit(&content);
}

TEST(discard_keeps_old_file)
{
	struct output_file file = { 0 };
	struct error err = { 0 };
	FILE *old = fopen("out.svg", "w");

	fputs("old", old);
	fclose(old);
	assert_int_equal(0, output_file_open("out.svg", &file, &err));
	output_file_discard(&file);
	EXPECT_EQ(3, size_of("out.svg"), "old content");
	assert_int_not_equal(0, access("out.svg.partial", F_OK));
}

TEST(refuses_unwritable_path_at_once)
{
	static const struct {
		const char *what, *path;
		int rc;
	} rows[] = {
		{ "no such folder", "absent/out.svg", -ENOENT },
		{ "a folder", "directory.svg", -EISDIR },
		{ "a device", "/dev/null", -EINVAL },
		{ "below a file", "/dev/null/out.svg", -ENOTDIR },
	};

	assert_int_equal(0, mkdir("directory.svg", 0700));
	for EACH (row, rows) {
		struct output_file file = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->rc, output_file_open(row->path, &file, &err), row->what);
		assert_non_null(strstr(err.text, row->path));
		output_file_discard(&file);
	}
}

TEST(does_not_follow_symlinks)
{
	struct output_file file = { 0 };
	struct buffer content = { 0 };
	struct error err = { 0 };

	fclose(fopen("victim", "w"));
	assert_int_equal(0, symlink("victim", "out.svg.partial"));
	buffer_append_string(&content, "content");
	assert_int_equal(0, output_file_open("out.svg", &file, &err));
	assert_int_equal(0, output_file_finish(&file, &content, &err));
	EXPECT_EQ(0, size_of("victim"), "untouched");
	EXPECT_EQ(7, size_of("out.svg"), "written");
	buffer_deinit(&content);
}

TEST(knows_what_it_would_replace)
{
	struct output_file file = { 0 };
	struct error err = { 0 };

	assert_int_equal(0, output_file_open("out.svg", &file, &err));
	assert_false(output_file_replaces(&file));
	fclose(fopen("out.svg", "w"));
	assert_true(output_file_replaces(&file));
	output_file_discard(&file);
}

TEST(refuses_standard_output)
{
	static const struct {
		const char *name;
		int rc;
	} rows[] = {
		{ "-", -EINVAL },         { "/dev/stdout", -EINVAL },
		{ "/dev/fd/1", -EINVAL }, { "/proc/self/fd/1", -EINVAL },
		{ "-.svg", 0 },           { "out.svg", 0 },
	};

	for EACH (row, rows) {
		struct error err = { 0 };

		EXPECT_EQ(row->rc, output_file_check_name(row->name, &err), row->name);
		if (row->rc)
			assert_non_null(strstr(err.text, "standard output is not supported"));
	}
}

TEST(standard_output_gets_all_at_the_end)
{
	struct output_file file = { 0 };
	struct buffer content = { 0 };
	char path[] = "/tmp/cairn-stdout-XXXXXX", text[8] = "";
	int fd = mkstemp(path), before = dup(STDOUT_FILENO);
	struct error err = { 0 };

	buffer_append_string(&content, "a 1\n");
	EXPECT_EQ(0, output_file_open("-", &file, &err), err.text);
	EXPECT_EQ(false, output_file_replaces(&file), "no file");
	dup2(fd, STDOUT_FILENO);
	int rc = output_file_finish(&file, &content, &err);
	dup2(before, STDOUT_FILENO);
	output_file_discard(&file);
	EXPECT_EQ(0, rc, err.text);
	EXPECT_EQ(4, pread(fd, text, sizeof(text) - 1, 0), "size");
	EXPECT_STR("a 1\n", text, "content");
	close(fd);
	close(before);
	unlink(path);
	buffer_deinit(&content);
}

#define IN_FOLDER(claim) cmocka_unit_test_setup_teardown(claim, make_folder, remove_folder)

RUN_TESTS(IN_FOLDER(renames_only_complete_files), IN_FOLDER(discard_keeps_old_file),
	  IN_FOLDER(refuses_unwritable_path_at_once), IN_FOLDER(does_not_follow_symlinks),
	  IN_FOLDER(knows_what_it_would_replace), cmocka_unit_test(refuses_standard_output),
	  cmocka_unit_test(standard_output_gets_all_at_the_end))
