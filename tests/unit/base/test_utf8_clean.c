// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <stdlib.h>

#include "tests/test.h"

static const struct {
	const char *what;
	const char *text;
	const char *clean;
} cases[] = {
	{ "plain", "std::vector<int>", "std::vector<int>" },
	{ "two bytes", "\xc3\xa9", "\xc3\xa9" },
	{ "three bytes", "\xe2\x82\xac", "\xe2\x82\xac" },
	{ "four bytes", "\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5" },
	{ "control characters", "a\n\x1b\x7f", "a???" },
	{ "control characters from U+0080 on",
	  "\xc2\x9b"
	  "2J\xc2\xa0",
	  "??2J\xc2\xa0" },
	{ "continuation alone", "a\x80z", "a?z" },
	{ "cut in two bytes", "\xc3", "?" },
	{ "cut in four bytes", "\xf0\x9f\x94", "???" },
	{ "over-long two", "\xc0\xaf", "??" },
	{ "over-long three", "\xe0\x80\xaf", "???" },
	{ "over-long four", "\xf0\x80\x80\xaf", "????" },
	{ "half of a surrogate pair", "\xed\xa0\x80", "???" },
	{ "past U+10FFFF", "\xf4\x90\x80\x80", "????" },
	{ "five bytes", "\xf8\x88\x80\x80\x80", "?????" },
	{ "sound after broken", "\xc3\xc3\xa9", "?\xc3\xa9" },
	{ "empty", "", "" },
};

TEST(what_is_not_text_is_replaced)
{
	for EACH (row, cases) {
		char *text = strdup(row->text);

		utf8_clean(text);
		EXPECT_STR(row->clean, text, row->what);
		free(text);
	}
}

RUN_TESTS(cmocka_unit_test(what_is_not_text_is_replaced))
