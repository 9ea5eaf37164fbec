// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/clock.h"
#include "cli/command.h"

static const struct command commands[] = {
	{ "top", "", NULL },
	{ "record", "", NULL },
	{ "query", "", NULL },
};

TEST(parses_seconds_and_units)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t ns;
	} rows[] = {
		{ "10", 0, 10 * NS_PER_SECOND },
		{ "1.5", 0, 1500 * NS_PER_MS },
		{ "500ms", 0, 500 * NS_PER_MS },
		{ "2m", 0, 120 * NS_PER_SECOND },
		{ "0", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "1e3", 0, 1000 * NS_PER_SECOND },
		{ "1e300", -EINVAL, 0 },
		{ "inf", -EINVAL, 0 },
		{ "nan", -EINVAL, 0 },
		{ "8d", -EINVAL, 0 },
		{ "ten", -EINVAL, 0 },
		{ "10 s", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	for EACH (row, rows) {
		struct error err = { 0 };
		uint64_t ns = 0;

		EXPECT_EQ(row->rc, interval_parse("-d", row->text, NS_PER_MS, &ns, &err),
			  row->text);
		EXPECT_EQ(row->ns, ns, row->text);
		if (row->rc)
			assert_non_null(strstr(err.text, "-d: "));
	}
}

TEST(suggests_nearest_command)
{
	static const struct {
		const char *typed;
		const char *meant;
	} rows[] = {
		{ "tpo", "top" },
		{ "recrod", "record" },
		{ "records", "record" },
		{ "qurey", "query" },
		{ "Top", "top" },
		{ "flamegraph", NULL },
		{ "", NULL },
		{ "a-name-far-longer-than-any-command", NULL },
	};

	for EACH (row, rows) {
		const struct command *nearest = command_nearest(commands, 3, row->typed);

		EXPECT_STR(row->meant ? row->meant : "(none)", nearest ? nearest->name : "(none)",
			   row->typed);
	}
}

TEST(finds_command_by_whole_name)
{
	assert_ptr_equal(&commands[1], command_find(commands, 3, "record"));
	assert_null(command_find(commands, 3, "rec"));
	assert_null(command_find(commands, 3, ""));
}

TEST(wrong_command_line_exits_2)
{
	struct error err = { 0 };

	EXPECT_EQ(EXIT_OK, command_exit("cairn query", 0, &err), "well");
	EXPECT_EQ(EXIT_USAGE, command_exit("cairn query", error_set(&err, -EINVAL, "from"), &err),
		  "usage");
	EXPECT_EQ(EXIT_FAILED, command_exit("cairn query", error_set(&err, -EIO, "disk"), &err),
		  "failed");
}

RUN_TESTS(cmocka_unit_test(wrong_command_line_exits_2), cmocka_unit_test(parses_seconds_and_units),
	  cmocka_unit_test(suggests_nearest_command), cmocka_unit_test(finds_command_by_whole_name))
