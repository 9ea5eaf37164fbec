// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/contract/profile_types.h"
#include "base/contract/profile_type.h"

static const struct {
	const char *what;
	const char *text;
	int rc;
	const char *error;
} rows[] = {
	{ "on-CPU time", PROFILE_TYPE_CPU, 0, "" },
	{ "parts of 31 bytes", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:b:c:d:e", 0, "" },
	{ "a part of 32 bytes", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:b:c:d:e", -EINVAL,
	  "the name is longer than 31 bytes" },
	{ "four parts", "a:b:c:d", -EINVAL, "expected five parts" },
	{ "six parts", "a:b:c:d:e:f", -EINVAL, "expected five parts" },
	{ "nothing", "", -EINVAL, "expected five parts" },
	{ "one word", "cpu", -EINVAL, "expected five parts" },
	{ "an empty part", "a:b::d:e", -EINVAL, "the sample unit is empty" },
	{ "an empty last part", "a:b:c:d:", -EINVAL, "the period unit is empty" },
	{ "a space", "a:b b:c:d:e", -EINVAL, "the sample type has a character" },
	{ "not ASCII", "a:b\xc3\xa9:c:d:e", -EINVAL, "the sample type has a character" },
	{ "a newline", "a:b:c:d:e\n", -EINVAL, "the period unit has a character" },
};

TEST(types_are_read_or_refused)
{
	for EACH (row, rows) {
		struct profile_type type = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->rc, profile_type_parse(row->text, &type, &err), row->what);
		if (!strstr(err.text, row->error))
			fail_msg("%s: error is \"%s\"", row->what, err.text);
		EXPECT_EQ(row->rc != 0, type.name[0] == 0, "untouched on failure");
	}
}

TEST(the_parts_stand_in_their_places)
{
	struct profile_type type;

	assert_int_equal(profile_type_parse("a:b:c:d:e", &type, NULL), 0);
	EXPECT_STR("a", type.name, "1");
	EXPECT_STR("b", type.sample_type, "2");
	EXPECT_STR("c", type.sample_unit, "3");
	EXPECT_STR("d", type.period_type, "4");
	EXPECT_STR("e", type.period_unit, "5");
}

TEST(period_makes_a_gauge)
{
	static const struct {
		const char *text;
		bool is_gauge;
	} types[] = {
		{ "memory:rss:bytes:gauge:second", true },
		{ "process_cpu:cpu:nanoseconds:cpu:nanoseconds", false },
		{ "memory:oom_kills:count:event:count", false },
		{ "memory:rss:bytes:gauge:minute", false },
		{ "gauge:second:bytes:x:y", false },
		{ "gauge:second", false },
		{ "", false },
	};

	for EACH (type, types)
		EXPECT_EQ(type->is_gauge, profile_type_is_gauge(type->text), type->text);
}

TEST(words_mean_types)
{
	uint32_t count;
	const struct profile_type_spec *specs = profile_type_specs(&count);
	struct error err = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		const char *type = NULL;

		EXPECT_EQ(0, profile_type_of_text(specs[i].type, &type, &err), err.text);
		EXPECT_STR(specs[i].type, type, "as it is");
		if (!specs[i].word)
			continue;
		EXPECT_EQ(0, profile_type_of_text(specs[i].word, &type, &err), err.text);
		EXPECT_STR(specs[i].type, type, specs[i].word);
	}
}

TEST(unknown_words_are_refused_with_all_words)
{
	const char *type = "untouched";
	struct error err = { 0 };

	EXPECT_EQ(-EINVAL, profile_type_of_text("off_cpu", &type, &err), "a word");
	EXPECT_STR("untouched", type, "no type");
	assert_non_null(strstr(err.text, "\"off_cpu\"; known: cpu, off-cpu, "));
	assert_non_null(strstr(err.text, ", or a type in five parts"));
	EXPECT_EQ(-EINVAL, profile_type_of_text("a:b:c:d", &type, &err), "four parts");
	assert_non_null(strstr(err.text, "expected five parts"));
}

TEST(words_are_listed_in_lines)
{
	char text[PROFILE_TYPE_WORDS_BYTES];
	size_t longest = 0;

	profile_type_words(text, sizeof(text), 40);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		longest = strlen(line) > longest ? strlen(line) : longest;
	if (longest < 20 || longest > 40)
		fail_msg("the longest line has %zu columns", longest);
}

RUN_TESTS(cmocka_unit_test(words_mean_types),
	  cmocka_unit_test(unknown_words_are_refused_with_all_words),
	  cmocka_unit_test(words_are_listed_in_lines), cmocka_unit_test(types_are_read_or_refused),
	  cmocka_unit_test(period_makes_a_gauge), cmocka_unit_test(the_parts_stand_in_their_places))
