// SPDX-License-Identifier: Apache-2.0
#include "base/regex.h"

#include <errno.h>
#include <string.h>

#include "tests/test.h"

static const struct {
	const char *what, *pattern, *text;
	int found;
	const char *group; // the first, where it is found
} cases[] = {
	{ "whole text", "a(.*)c", "abbc", 1, "bb" },
	{ "anchored in front", "b(c)", "abc", 0, NULL },
	{ "anchored behind", "(a)b", "abc", 0, NULL },
	{ "longer alternative", "(a|ab)c?", "abc", 1, "ab" },
	{ "a newline is a character", "a(.)c", "a\nc", 1, "\n" },
	{ "a group without a part in it", "a|(b)", "a", 1, "" },
	{ "a begin that is moved", "(a)\\Kb", "ab", 1, "a" },
	{ "nothing", "()", "", 1, "" },
	{ "not UTF-8", "(.)", "\xff", 0, NULL },
	{ "nested repetition", "(a+)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabc", -E2BIG, NULL },
	{ "recursion", "((?1)?a)", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", -E2BIG, NULL },
};

TEST(finds_groups_of_whole_texts)
{
	for EACH (row, cases) {
		struct regex *regex = NULL;
		struct regex_match match = { 0 };
		struct error err = { 0 };

		if (regex_compile(row->pattern, 100, 10000, &regex, &err))
			fail_msg("%s: %s", row->what, err.text);
		int rc = regex_find(regex, row->text, strlen(row->text), &match);
		EXPECT_EQ(row->found, rc, row->what);
		if (row->group && match.count > 1) {
			size_t size = match.groups[1].end - match.groups[1].begin;

			EXPECT_EQ(strlen(row->group), size, row->what);
			assert_memory_equal(row->group, row->text + match.groups[1].begin, size);
		} else if (row->group) {
			EXPECT_STR(row->group, "", row->what);
		}
		EXPECT_EQ(row->found, regex_find(regex, row->text, strlen(row->text), NULL),
			  row->what);
		regex_free(regex);
	}
}

TEST(refuses_wrong_patterns_with_the_character)
{
	struct regex *regex = NULL;
	struct error err = { 0 };

	assert_int_equal(-EINVAL, regex_compile("a(", 100, 1, &regex, &err));
	assert_non_null(strstr(err.text, "(at its character 3)"));
	assert_int_equal(-EINVAL, regex_compile("aaaa", 3, 1, &regex, &err));
	assert_null(regex);
}

TEST(numbers_groups_by_name)
{
	struct regex *regex = NULL;

	assert_int_equal(0, regex_compile("(a)(?P<name>b)", 100, 1000, &regex, NULL));
	assert_int_equal(2, regex_group_count(regex));
	assert_int_equal(2, regex_group_of_name(regex, "name"));
	assert_int_equal(-ENOENT, regex_group_of_name(regex, "nam"));
	regex_free(regex);
}

TEST(bounds_the_groups_of_a_match)
{
	struct regex *regex = NULL;
	struct regex_match match;
	char pattern[3 * 40 + 1] = "";

	for (int i = 0; i < 40; i++)
		strcat(pattern, "(.)");
	assert_int_equal(0, regex_compile(pattern, sizeof(pattern), 1000, &regex, NULL));
	assert_int_equal(1,
			 regex_find(regex, "0123456789012345678901234567890123456789", 40, &match));
	assert_int_equal(REGEX_GROUPS_MAX, match.count);
	regex_free(regex);
}

RUN_TESTS(cmocka_unit_test(finds_groups_of_whole_texts),
	  cmocka_unit_test(refuses_wrong_patterns_with_the_character),
	  cmocka_unit_test(numbers_groups_by_name), cmocka_unit_test(bounds_the_groups_of_a_match))
