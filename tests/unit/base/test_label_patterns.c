// SPDX-License-Identifier: Apache-2.0
#include "base/label_patterns.h"

#include <errno.h>

#include "tests/test.h"

TEST(refuses_patterns_that_match_nothing)
{
	static const char *const good[] = { NULL, "*", "a", "team.name,k8s.*", "x/y-z_0" };
	static const char *const bad[] = {
		"", "a,", ",a", "a,,b", "*.name", "a b", "a*,b=c", "a**"
	};
	struct error err;

	for EACH (row, good)
		EXPECT_EQ(0, label_patterns_check(*row, &err), *row ? *row : "none");
	for EACH (row, bad)
		EXPECT_EQ(-EINVAL, label_patterns_check(*row, &err), *row);
}

static const struct {
	const char *patterns, *name;
	bool matches;
} matches[] = {
	{ NULL, "a", false },           { "a", "a", true },
	{ "a", "ab", false },           { "a*", "ab", true },
	{ "x,team.*", "team.a", true }, { "team.*", "team", false },
	{ "x,y", "y", true },           { "*", "any", true },
};

TEST(a_pattern_is_a_name_or_a_begin)
{
	for EACH (row, matches)
		EXPECT_EQ(row->matches, label_patterns_match(row->patterns, row->name), row->name);
}

static const struct {
	const char *name, *label;
} names[] = {
	{ "team", "team" },       { "app.kubernetes.io/name", "app_kubernetes_io_name" },
	{ "1a", "_1a" },          { "\xc3\xa9", "__" },
	{ "0123456", "_012345" }, // cut to the buffer
};

TEST(names_become_names_of_labels)
{
	for EACH (row, names) {
		char name[32] = "";
		size_t size = row->name[0] == '0' ? 8 : sizeof(name);

		snprintf(name, sizeof(name), "%s", row->name);
		label_name_from(name, size);
		EXPECT_STR(row->label, name, row->name);
	}
}

RUN_TESTS(cmocka_unit_test(refuses_patterns_that_match_nothing),
	  cmocka_unit_test(a_pattern_is_a_name_or_a_begin),
	  cmocka_unit_test(names_become_names_of_labels))
