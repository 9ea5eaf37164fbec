// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/source_path.h"

#include "tests/test.h"

static const struct {
	const char *what, *path, *longest; // NULL: none
} rows[] = {
	{ "absolute", "/srv/app/model.py", "srv/app/model.py" },
	{ "relative", "app/model.py", "app/model.py" },
	{ "a name", "model.py", "model.py" },
	{ "upper case", "boot.S", "boot.S" },
	{ "C++", "a/b.c++", "a/b.c++" },
	{ "two slashes", "/srv//app/model.py", "app/model.py" },
	{ "up", "/build/../srv/model.py", "srv/model.py" },
	{ "up at the end", "../model.py", "model.py" },
	{ "up many times", "../../../../etc/a.c/../../b.c", "b.c" },
	{ "here", "./src/./a.c", "a.c" },
	{ "hidden folder", "/srv/.venv/lib/queue.py", "lib/queue.py" },
	{ "control character", "/srv/a\nb/c.py", "c.py" },
	{ "hidden file", "/srv/.env.py", NULL },
	{ "hidden suffix alone", "/srv/.py", NULL },
	{ "no source", "/etc/shadow", NULL },
	{ "settings", "/srv/settings.yaml", NULL },
	{ "a key", "/srv/id_rsa.pem", NULL },
	{ "a suffix of two words", "/srv/a.c c++", NULL },
	{ "a suffix of blanks", "/srv/a. ", NULL },
	{ "control character in the name", "/srv/a\x7f.c", NULL },
	{ "JIT code", "<string>", NULL },
	{ "a folder", "/srv/a.py/", NULL },
	{ "nothing", "", NULL },
};

TEST(finds_what_may_lie_below_a_folder)
{
	for EACH (row, rows) {
		const char *longest = source_path_longest(row->path);

		EXPECT_STR(row->longest ? row->longest : "none", longest ? longest : "none",
			   row->what);
		if (longest)
			EXPECT_EQ(true, source_path_is_plain(longest), row->what);
		EXPECT_EQ(longest == row->path && longest, source_path_is_plain(row->path),
			  row->what);
	}
}

TEST(shortens_by_one_folder)
{
	const char *path = source_path_longest("/srv/app/model.py");

	path = source_path_shorter(path);
	EXPECT_STR("app/model.py", path, "one");
	path = source_path_shorter(path);
	EXPECT_STR("model.py", path, "two");
	assert_null(source_path_shorter(path));
}

TEST(paths_of_a_megabyte_are_cut)
{
	size_t size = 1 << 20;
	char *path = malloc(size + 1);

	for (size_t i = 0; i < size; i++)
		path[i] = i % 8 == 7 ? '/' : 'a';
	memcpy(path + size - 5, "/a.py", 6);
	const char *longest = source_path_longest(path);
	assert_non_null(longest);
	assert_true(strlen(longest) <= SOURCE_PATH_BYTES_MAX && strlen(longest) > 1000);
	memset(path, 'a', size - 3);
	assert_null(source_path_longest(path)); // one long name
	free(path);
}

RUN_TESTS(cmocka_unit_test(finds_what_may_lie_below_a_folder),
	  cmocka_unit_test(shortens_by_one_folder), cmocka_unit_test(paths_of_a_megabyte_are_cut))
