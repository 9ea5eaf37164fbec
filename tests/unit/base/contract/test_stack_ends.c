// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/contract/stack_ends.h"

TEST(ends_have_tokens_titles_and_meanings)
{
	for (int end = 0; end < STACK_END_COUNT; end++) {
		const struct stack_end_spec *spec = stack_end_spec((enum stack_end)end);

		assert_non_null(spec->title);
		assert_non_null(spec->meaning);
		EXPECT_EQ(strlen(spec->token), strspn(spec->token, "abcdefghijklmnopqrstuvwxyz_"),
			  spec->token);
	}
}

TEST(ends_of_newer_agents_are_unknown)
{
	EXPECT_STR("unknown", stack_end_spec((enum stack_end)250)->token, "token");
	EXPECT_STR("unknown reason", stack_end_name((enum stack_end)250), "title");
}

RUN_TESTS(cmocka_unit_test(ends_have_tokens_titles_and_meanings),
	  cmocka_unit_test(ends_of_newer_agents_are_unknown))
