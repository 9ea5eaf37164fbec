// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <stdlib.h>

#include "base/utf8.h"

static const struct {
	const char *what;
	const char *text;
	const char *repaired;
} rows[] = {
	{ "empty", "", "" },
	{ "ASCII longer than a word", "void foo(int, char const*)", "void foo(int, char const*)" },
	{ "two bytes, least", "\xc2\x80", "\xc2\x80" },
	{ "three bytes, least", "\xe0\xa0\x80", "\xe0\xa0\x80" },
	{ "four bytes, least", "\xf0\x90\x80\x80", "\xf0\x90\x80\x80" },
	{ "the last character", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
	{ "beyond the last", "\xf4\x90\x80\x80", "????" },
	{ "no such lead", "\xf5\x80\x80\x80", "????" },
	{ "overlong, two bytes", "\xc1\xbf", "??" },
	{ "overlong, three bytes", "\xe0\x9f\xbf", "???" },
	{ "overlong, four bytes", "\xf0\x8f\xbf\xbf", "????" },
	{ "before the surrogates", "\xed\x9f\xbf", "\xed\x9f\xbf" },
	{ "a surrogate", "\xed\xa0\x80", "???" },
	{ "follower alone", "ab\x80", "ab?" },
	{ "cut after two of three", "a\xe2\x82", "a??" },
	{ "cut, then good", "\xe2\x82 \xe2\x82\xac", "?? \xe2\x82\xac" },
	{ "bad within ASCII",
	  "0123456789\xff"
	  "0123456789",
	  "0123456789?0123456789" },
};

TEST(repairs_invalid_bytes)
{
	for EACH (row, rows) {
		char text[64];
		bool is_valid = strcmp(row->text, row->repaired) == 0;

		snprintf(text, sizeof(text), "%s", row->text);
		EXPECT_EQ(is_valid, utf8_is_valid(text, strlen(text)), row->what);
		utf8_repair(text, strlen(text));
		EXPECT_STR(row->repaired, text, row->what);
	}
}

static const struct {
	const char *what;
	const char *text;
	size_t size_max;
	size_t cut;
} cuts[] = {
	{ "short enough", "abc", 3, 3 },
	{ "ASCII", "abcd", 3, 3 },
	{ "within three bytes, one in", "ab\xe2\x82\xac", 3, 2 },
	{ "within three bytes, two in", "ab\xe2\x82\xac", 4, 2 },
	{ "right after", "ab\xe2\x82\xac!", 5, 5 },
	{ "to nothing", "\xf0\x90\x80\x80", 3, 0 },
	{ "followers only: not text, cut somewhere", "\x80\x80\x80\x80\x80\x80\x80\x80", 6, 3 },
	{ "at the start", "\xe2\x82\xac", 0, 0 },
};

TEST(a_cut_falls_between_characters)
{
	for EACH (row, cuts)
		EXPECT_EQ(row->cut, utf8_cut(row->text, strlen(row->text), row->size_max),
			  row->what);
}

TEST(random_bytes_are_valid_after_repair)
{
	srandom(3);
	for (int round = 0; round < 50000; round++) {
		char text[24];
		size_t size = (size_t)random() % sizeof(text);

		for (size_t i = 0; i < size; i++)
			text[i] = (char)(random() % 3 ? 0x80 | random() : random());
		utf8_repair(text, size);
		assert_true(utf8_is_valid(text, size));
	}
}

RUN_TESTS(cmocka_unit_test(repairs_invalid_bytes), cmocka_unit_test(a_cut_falls_between_characters),
	  cmocka_unit_test(random_bytes_are_valid_after_repair))
