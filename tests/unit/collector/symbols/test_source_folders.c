// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/source_folders.h"

#include "base/cleanup.h"
#include "tests/unit/collector/symbols/source_fixture.h"

static void parse(struct source_fixture *fixture, const char *format,
		  struct source_folders *ret_folders)
{
	struct error err = { 0 };
	char text[256];

	snprintf(text, sizeof(text), format, fixture->folder, fixture->folder);
	if (source_folders_parse(text, ret_folders, &err))
		fail_msg("%s", err.text);
}

/** What the file that @path finds begins with; "" for none. */
static const char *found(const struct source_folders *folders, const char *tenant, const char *path)
{
	static char text[64];
	struct source_folder_file file;

	if (source_folders_find(folders, tenant, path, &file))
		return "";
	ssize_t size = pread(file.fd, text, sizeof(text) - 1, 0);
	assert_true(size >= 0);
	text[size] = '\0';
	close(file.fd);
	return text;
}

TEST(finds_the_longest_end_of_a_path)
{
	struct source_fixture fixture;
	struct source_folders folders;
	struct source_folder_file file;

	open_sources(&fixture);
	write_code(&fixture, "app/model.py", "inner");
	write_code(&fixture, "model.py", "outer");
	parse(&fixture, "%s/code", &folders);
	EXPECT_STR("inner", found(&folders, "", "/srv/x/app/model.py"), "long");
	EXPECT_STR("outer", found(&folders, "", "/srv/x/other/model.py"), "short");
	EXPECT_STR("", found(&folders, "", "/srv/x/app/nothing.py"), "none");
	assert_int_equal(0, source_folders_find(&folders, "", "app/model.py", &file));
	EXPECT_STR("app/model.py", file.path, "path");
	EXPECT_EQ(5, file.bytes, "bytes");
	EXPECT_EQ(0, file.others, "others");
	close(file.fd);
	source_folders_deinit(&folders);
	close_sources(&fixture);
}

TEST(reads_nothing_outside_or_secret)
{
	static const char *const paths[] = {
		"/etc/shadow",
		"../../../etc/shadow",
		"/srv/../../secret.py",
		"../secret.py",
		"inside.py",
		"inside/a.py",
		"link.py",
		"linked/a.py",
		".env",
		".git/a.py",
		"key.pem",
		"folder.py",
		"fifo.py",
		"",
	};
	struct source_fixture fixture;
	struct source_folders folders;
	char command[512];

	open_sources(&fixture);
	write_code(&fixture, "key.pem", "secret");
	write_code(&fixture, ".env", "secret");
	write_code(&fixture, ".git/a.py", "secret");
	write_code(&fixture, "../outside/a.py", "secret");
	write_code(&fixture, "../secret.py", "secret");
	snprintf(command, sizeof(command),
		 "cd %s/code && ln -s ../secret.py link.py && ln -s ../outside linked && "
		 "ln -s key.pem inside.py && ln -s .git inside && "
		 "mkdir folder.py && mkfifo fifo.py",
		 fixture.folder);
	assert_int_equal(0, system(command));
	parse(&fixture, "%s/code", &folders);
	for EACH (path, paths)
		EXPECT_STR("", found(&folders, "", *path), *path);
	source_folders_deinit(&folders);
	close_sources(&fixture);
}

TEST(folders_are_of_their_tenant)
{
	struct source_fixture fixture;
	struct source_folders folders;
	struct source_folder_file file;

	open_sources(&fixture);
	write_code(&fixture, "a/x.c", "first");
	write_code(&fixture, "b/x.c", "second");
	parse(&fixture, "shop=%s/code/a,%s/code/b", &folders);
	EXPECT_STR("first", found(&folders, "shop", "/x.c"), "a tenant");
	EXPECT_STR("second", found(&folders, "", "/x.c"), "none");
	EXPECT_STR("", found(&folders, "bank", "/x.c"), "another");
	source_folders_deinit(&folders);
	parse(&fixture, "%s/code/a,%s/code/b", &folders);
	assert_int_equal(0, source_folders_find(&folders, "", "/x.c", &file));
	EXPECT_EQ(1, file.others, "ambiguous");
	close(file.fd);
	source_folders_deinit(&folders);
	close_sources(&fixture);
}

TEST(refuses_wrong_folders)
{
	static const struct {
		const char *text;
		int rc;
	} rows[] = {
		{ "", -EINVAL },
		{ "relative", -EINVAL },
		{ "/tmp,", -EINVAL },
		{ "shop=", -EINVAL },
		{ "shop=tmp", -EINVAL },
		{ "/nowhere", -ENOENT },
		{ "/etc/passwd", -ENOTDIR },
	};
	struct source_folders folders;
	char many[(SOURCE_FOLDERS_MAX + 1) * 5 + 1] = "/tmp";

	for EACH (row, rows) {
		struct error err = { 0 };

		EXPECT_EQ(row->rc, source_folders_parse(row->text, &folders, &err), row->text);
		assert_non_null(strstr(err.text, "--source-folders"));
	}
	for (int i = 0; i < SOURCE_FOLDERS_MAX; i++)
		strcat(many, ",/tmp");
	EXPECT_EQ(-EINVAL, source_folders_parse(many, &folders, NULL), "too many");
}

RUN_TESTS(cmocka_unit_test(finds_the_longest_end_of_a_path),
	  cmocka_unit_test(reads_nothing_outside_or_secret),
	  cmocka_unit_test(folders_are_of_their_tenant), cmocka_unit_test(refuses_wrong_folders))
