// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/string_table.h"

static uint32_t add(struct string_table *table, const char *string, size_t size)
{
	uint32_t number = HASH_TABLE_NONE;

	assert_int_equal(string_table_add(table, string, size, &number), 0);
	return number;
}

TEST(number_zero_is_the_empty_string)
{
	_cleanup_(string_table_deinit) struct string_table table = { 0 };

	assert_int_equal(string_table_init(&table), 0);
	EXPECT_EQ(0, add(&table, "", 0), "empty");
	EXPECT_EQ(0, add(&table, "\0abc", 4), "nothing before the NUL");
	EXPECT_STR("", string_table_get(&table, 0), "number 0");
	EXPECT_STR("", string_table_get(&table, 12345), "a number that is not there");
}

TEST(equal_strings_have_one_number)
{
	_cleanup_(string_table_deinit) struct string_table table = { 0 };
	char text[32];

	assert_int_equal(string_table_init(&table), 0);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 20000; i++) {
			int size = snprintf(text, sizeof(text), "function_%u", i);

			EXPECT_EQ(i + 1, add(&table, text, (size_t)size), "dense, in order");
			EXPECT_STR(text, string_table_get(&table, i + 1), "comes back");
		}
	}
	EXPECT_EQ(20001, table.count, "no doubles");
	EXPECT_EQ(8, string_table_find(&table, "function_7"), "found");
	EXPECT_EQ(HASH_TABLE_NONE, string_table_find(&table, "function_"),
		  "a prefix is another string");
}

static const struct {
	const char *what;
	const char *bytes;
	size_t size;
	const char *kept;
} rows[] = {
	{ "no NUL at the end", "abcdef", 3, "abc" },
	{ "a NUL within", "ab\0cd", 5, "ab" },
	{ "two-byte character", "h\xc3\xa9", 3, "h\xc3\xa9" },
	{ "cut character", "h\xc3", 2, "h?" },
	{ "stray byte",
	  "a\xff"
	  "b",
	  3, "a?b" },
	{ "overlong slash", "\xc0\xaf", 2, "??" },
};

TEST(what_is_kept_is_valid_text)
{
	_cleanup_(string_table_deinit) struct string_table table = { 0 };

	assert_int_equal(string_table_init(&table), 0);
	for EACH (row, rows) {
		uint32_t number = add(&table, row->bytes, row->size);

		EXPECT_STR(row->kept, string_table_get(&table, number), row->what);
		EXPECT_EQ(number, add(&table, row->bytes, row->size), row->what);
		EXPECT_EQ(number, string_table_find(&table, row->kept), row->what);
	}
}

TEST(long_strings_are_cut_between_characters)
{
	_cleanup_(string_table_deinit) struct string_table table = { 0 };
	_cleanup_free_ char *text = malloc(3 * STRING_BYTES_MAX);

	assert_int_equal(string_table_init(&table), 0);
	memset(text, 'a', 3 * STRING_BYTES_MAX);
	EXPECT_EQ(STRING_BYTES_MAX,
		  strlen(string_table_get(&table, add(&table, text, 3 * STRING_BYTES_MAX))),
		  "ASCII");

	memcpy(text + STRING_BYTES_MAX - 1, "\xe2\x82\xac", 3); // a euro sign over the border
	uint32_t number = add(&table, text, 3 * STRING_BYTES_MAX);
	EXPECT_EQ(STRING_BYTES_MAX - 1, strlen(string_table_get(&table, number)), "euro");
}

RUN_TESTS(cmocka_unit_test(number_zero_is_the_empty_string),
	  cmocka_unit_test(equal_strings_have_one_number),
	  cmocka_unit_test(what_is_kept_is_valid_text),
	  cmocka_unit_test(long_strings_are_cut_between_characters))
