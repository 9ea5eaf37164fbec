// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/profile_type.h"

static const struct profile_type_spec *specs;
static uint32_t count;

static bool is_label(const char *name)
{
	uint32_t label_count;
	const struct label_spec *labels = label_specs(&label_count);

	for (uint32_t i = 0; i < label_count; i++) {
		if (strcmp(labels[i].name, name) == 0)
			return true;
	}
	return false;
}

TEST(types_have_five_parts)
{
	struct profile_type parsed;
	struct error err = { 0 };

	specs = profile_type_specs(&count);
	for (uint32_t i = 0; i < count; i++)
		EXPECT_EQ(0, profile_type_parse(specs[i].type, &parsed, &err), err.text);
}

TEST(names_are_unique)
{
	specs = profile_type_specs(&count);
	for (uint32_t i = 0; i < count; i++) {
		EXPECT_EQ(i, profile_type_spec(specs[i].type) - specs, specs[i].type);
		for (uint32_t j = 0; j < i; j++) {
			assert_string_not_equal(specs[i].title, specs[j].title);
			if (specs[i].word && specs[j].word)
				assert_string_not_equal(specs[i].word, specs[j].word);
		}
	}
}

TEST(types_are_described_whole)
{
	specs = profile_type_specs(&count);
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_type_spec *spec = &specs[i];
		bool is_time =
			strstr(spec->type, ":nanoseconds:") && !profile_type_is_gauge(spec->type);

		assert_non_null(spec->title);
		assert_non_null(spec->meaning);
		assert_true(spec->meaning[strlen(spec->meaning) - 1] != '.');
		if (is_time && !spec->rate)
			fail_msg("%s: what is its time per time counted in?", spec->type);
		EXPECT_EQ(spec->no_stacks == NULL, spec->see[0] == NULL, spec->type);
		if (spec->group_by)
			assert_true(is_label(spec->group_by));
	}
}

TEST(labels_and_types_that_are_named_exist)
{
	specs = profile_type_specs(&count);
	for (uint32_t i = 0; i < count; i++) {
		for (const char *const *label = specs[i].labels; *label; label++)
			EXPECT_EQ(true, is_label(*label), *label);
		for (const char *const *type = specs[i].see; *type; type++)
			assert_non_null(profile_type_spec(*type));
	}
}

RUN_TESTS(cmocka_unit_test(types_have_five_parts), cmocka_unit_test(names_are_unique),
	  cmocka_unit_test(types_are_described_whole),
	  cmocka_unit_test(labels_and_types_that_are_named_exist))
