// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/source_text.h"

#include "tests/unit/collector/symbols/source_fixture.h"

/** The text that is found for "/srv/app/model.py" of a service and version; "" for none. */
static const char *find(struct source_fixture *fixture, const struct source_folders *folders,
			const char *service, const char *version, struct source_text *ret_text)
{
	static char shown[64];
	struct buffer bytes = { 0 };

	*ret_text = (struct source_text){
		.path = "/srv/app/model.py",
		.service = service,
		.version = version,
	};
	assert_int_equal(0, source_texts_find(&fixture->files, folders, "", ret_text, 1));
	shown[0] = '\0';
	if (ret_text->origin) {
		assert_int_equal(0, source_text_read(&fixture->files, ret_text, &bytes));
		snprintf(shown, sizeof(shown), "%.*s", (int)bytes.size, (char *)bytes.bytes);
	}
	source_text_deinit(ret_text);
	buffer_deinit(&bytes);
	return shown;
}

TEST(version_that_ran_comes_first)
{
	const struct source_folders none = { 0 };
	struct source_fixture fixture;
	struct source_text text;
	struct error err = { 0 };

	open_sources(&fixture);
	EXPECT_STR("", find(&fixture, &none, "shop", "1.4", &text), "nothing is uploaded");
	keep_archive(&fixture, "", "1.3", "srv/app/model.py", "old", &err);
	keep_archive(&fixture, "shop", "1.4", "model.py", "of shop", &err);
	keep_archive(&fixture, "bank", "1.4", "srv/app/model.py", "of bank", &err);
	EXPECT_STR("of shop", find(&fixture, &none, "shop", "1.4", &text), "its version");
	EXPECT_EQ(true, text.is_version, "its version");
	EXPECT_EQ(0, text.others, "others");
	EXPECT_STR("token:ci", text.upload.who, "who");
	EXPECT_STR("old", find(&fixture, &none, "shop", "1.5", &text), "longest path");
	EXPECT_EQ(false, text.is_version, "not known");
	EXPECT_EQ(1, text.others, "others");
	EXPECT_STR("srv/app/model.py", text.found, "path");
	EXPECT_STR("old", find(&fixture, &none, "", "", &text), "without labels");
	EXPECT_EQ(0, text.others, "of no other service");
	close_sources(&fixture);
}

TEST(folders_yield_to_the_version_that_ran)
{
	struct source_fixture fixture;
	struct source_folders folders;
	struct source_text text;
	struct error err = { 0 };
	char path[64];

	open_sources(&fixture);
	write_code(&fixture, "app/model.py", "checkout");
	snprintf(path, sizeof(path), "%s/code", fixture.folder);
	assert_int_equal(0, source_folders_parse(path, &folders, &err));
	keep_archive(&fixture, "", "1.4", "model.py", "uploaded", &err);
	EXPECT_STR("uploaded", find(&fixture, &folders, "", "1.4", &text), "its version");
	EXPECT_STR("checkout", find(&fixture, &folders, "", "1.5", &text), "longer path");
	EXPECT_EQ(SOURCE_FOLDER, text.origin, "origin");
	source_folders_deinit(&folders);
	close_sources(&fixture);
}

TEST(no_text_is_refused)
{
	struct source_fixture fixture;
	struct source_folders folders;
	struct source_text text = { .path = "/big.c", .service = "", .version = "" };
	struct buffer bytes = { 0 };
	struct error err = { 0 };
	char path[64];

	open_sources(&fixture);
	write_code(&fixture, "big.c", "");
	snprintf(path, sizeof(path), "%s/code/big.c", fixture.folder);
	assert_int_equal(0, truncate(path, 100 << 20));
	snprintf(path, sizeof(path), "%s/code", fixture.folder);
	assert_int_equal(0, source_folders_parse(path, &folders, &err));
	assert_int_equal(0, source_texts_find(&fixture.files, &folders, "", &text, 1));
	EXPECT_EQ(-EBADMSG, source_text_read(&fixture.files, &text, &bytes), "100 MiB");
	EXPECT_EQ(0, bytes.size, "nothing was read");
	snprintf(path, sizeof(path), "%s/code/big.c", fixture.folder);
	assert_int_equal(0, truncate(path, 1));
	text.bytes = 1;
	EXPECT_EQ(-EBADMSG, source_text_read(&fixture.files, &text, &bytes), "a NUL byte");
	text.bytes = 2;
	EXPECT_EQ(-ENOENT, source_text_read(&fixture.files, &text, &bytes), "cut meanwhile");
	source_text_deinit(&text);
	buffer_deinit(&bytes);
	source_folders_deinit(&folders);
	close_sources(&fixture);
}

static const struct {
	const char *text, *function;
	bool names;
} rows[] = {
	{ "def forward(self):", "Model.forward (model.py)", true },
	{ "def forwards(self):", "Model.forward (model.py)", false },
	{ "def my_forward(self):", "forward (model.py)", false },
	{ "xforward; forward", "forward", true },
	{ "void Engine::run(int)", "ns::Engine::run(int)", true },
	{ "nothing", "<module> (model.py)", true },
	{ "nothing", "f.<locals>.<lambda> (model.py)", true },
	{ "nothing", "(anonymous namespace)::g", true },
	{ "", "forward", false },
};

TEST(finds_names_as_words)
{
	for EACH (row, rows) {
		struct buffer bytes = { 0 };

		buffer_append_string(&bytes, row->text);
		EXPECT_EQ(row->names, source_text_names(&bytes, row->function), row->function);
		buffer_deinit(&bytes);
	}
}

TEST(cursor_walks_over_lines)
{
	static const char text[] = "one\r\n\nthree";
	struct source_cursor cursor = { text, text + strlen(text), 0 };
	const char *line;
	uint32_t size;

	assert_true(source_cursor_seek(&cursor, 1, &line, &size));
	EXPECT_EQ(3, size, "without its end");
	assert_true(source_cursor_seek(&cursor, 2, &line, &size));
	EXPECT_EQ(0, size, "empty");
	assert_true(source_cursor_seek(&cursor, 3, &line, &size));
	assert_memory_equal("three", line, size);
	assert_false(source_cursor_seek(&cursor, 4, &line, &size));
	assert_false(source_cursor_seek(&cursor, UINT32_MAX, &line, &size));
}

RUN_TESTS(cmocka_unit_test(version_that_ran_comes_first),
	  cmocka_unit_test(folders_yield_to_the_version_that_ran),
	  cmocka_unit_test(no_text_is_refused), cmocka_unit_test(finds_names_as_words),
	  cmocka_unit_test(cursor_walks_over_lines))
