// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/cleanup.h"
#include "base/import/json_reader.h"

static struct json_reader reader_of(const char *text)
{
	return (struct json_reader){ text, text + strlen(text), false };
}

TEST(skips_any_value)
{
	static const struct {
		const char *text;
		bool failed;
	} rows[] = {
		{ "{\"a\":[1,-2.5e3,{\"b\":null}],\"c\":\"x\\\"}\"}!", false },
		{ "[]!", false },
		{ "true!", false },
		{ "\"a\\\\\"!", false },
		{ "[1,2", true },
		{ "{\"a\":}", false },
		{ "[}", true },
		{ "\"a\\\"", true },
		{ "nul", true },
		{ "", true },
	};

	for EACH (row, rows) {
		struct json_reader reader = reader_of(row->text);

		json_skip(&reader);
		EXPECT_EQ(row->failed, reader.failed, row->text);
		if (!row->failed && strchr(row->text, '!'))
			EXPECT_EQ('!', *reader.at, row->text);
	}
}

TEST(refuses_depth_without_end)
{
	char text[JSON_DEPTH_MAX + 2];

	memset(text, '[', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	struct json_reader reader = reader_of(text);
	json_skip(&reader);
	assert_true(reader.failed);
}

TEST(reads_members_and_items)
{
	struct json_reader reader = reader_of(" { \"a\" : [ 1 , \"2\" ], \"b\":{}} ");
	struct json_text name;
	bool is_first = true, is_first_item = true;
	int64_t value;

	assert_true(json_enter(&reader, '{'));
	assert_true(json_next_member(&reader, &is_first, &name));
	assert_true(json_text_is(name, "a"));
	assert_true(json_enter(&reader, '['));
	assert_true(json_next_item(&reader, &is_first_item) && json_read_integer(&reader, &value));
	assert_int_equal(1, value);
	assert_true(json_next_item(&reader, &is_first_item) && json_read_integer(&reader, &value));
	assert_int_equal(2, value);
	assert_false(json_next_item(&reader, &is_first_item));
	assert_true(json_next_member(&reader, &is_first, &name));
	json_skip(&reader);
	assert_false(json_next_member(&reader, &is_first, &name));
	assert_false(reader.failed);
}

TEST(reads_numbers_exactly)
{
	static const struct {
		const char *text;
		bool is_number;
		int64_t value;
	} rows[] = {
		{ "9007199254740993", true, 9007199254740993 },
		{ "\"-5\"", true, -5 },
		{ "18446744073709551615", true, -1 },
		{ "18446744073709551616", false, 0 },
		{ "1.5", false, 0 },
		{ "\"\"", false, 0 },
		{ "\"x\"", false, 0 },
		{ "-", false, 0 },
		{ "[]", false, 0 },
	};

	for EACH (row, rows) {
		struct json_reader reader = reader_of(row->text);
		int64_t value = 0;

		EXPECT_EQ(row->is_number, json_read_integer(&reader, &value), row->text);
		if (row->is_number)
			EXPECT_EQ(row->value, value, row->text);
	}
}

TEST(unescapes_strings)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "a\\n\\t\\\"\\\\\\/", "a\n\t\"\\/" },
		{ "\\u00e9\\u20ac", "\xc3\xa9\xe2\x82\xac" },
		{ "\\ud83d\\ude00", "\xf0\x9f\x98\x80" },
		{ "\\ud83dx", "?x" },
		{ "\\uzz", "?zz" },
		{ "a\\", "a" },
	};

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

		json_append_unescaped(&buffer, (struct json_text){ row->text, strlen(row->text) });
		EXPECT_STR(row->expected, buffer_string(&buffer), row->text);
	}
}

RUN_TESTS(cmocka_unit_test(skips_any_value), cmocka_unit_test(refuses_depth_without_end),
	  cmocka_unit_test(reads_members_and_items), cmocka_unit_test(reads_numbers_exactly),
	  cmocka_unit_test(unescapes_strings))
