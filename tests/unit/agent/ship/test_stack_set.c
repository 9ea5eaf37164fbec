// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/stack_set.h"

#include "tests/test.h"

TEST(a_full_stack_set_starts_again)
{
	struct stack_set set = { .count_max = 1000 };

	for (uint64_t i = 0; i < 1000; i++)
		stack_set_add(&set, (struct id128){ i, i * 7919 });
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(stack_set_has(&set, (struct id128){ i, i * 7919 }));
		assert_false(stack_set_has(&set, (struct id128){ i + 1, i * 7919 }));
	}
	stack_set_add(&set, (struct id128){ 5, 5 * 7919 });
	EXPECT_EQ(1000, set.count, "one that is there already");
	stack_set_add(&set, (struct id128){ 1000, 1000 * 7919 });
	EXPECT_EQ(1, set.count, "one too many");
	assert_true(stack_set_has(&set, (struct id128){ 1000, 1000 * 7919 }));
	assert_false(stack_set_has(&set, (struct id128){ 5, 5 * 7919 }));
	stack_set_clear(&set);
	assert_false(stack_set_has(&set, (struct id128){ 1000, 1000 * 7919 }));
	stack_set_deinit(&set);
}

RUN_TESTS(cmocka_unit_test(a_full_stack_set_starts_again))
