// SPDX-License-Identifier: Apache-2.0
#include "base/byte_budget.h"

#include <errno.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "tests/test.h"

TEST(gives_no_byte_twice)
{
	struct byte_budget budget = { .bytes_max = 100 };

	assert_true(byte_budget_take(&budget, 60));
	assert_false(byte_budget_take(&budget, 41));
	assert_true(byte_budget_take(&budget, 40));
	assert_false(byte_budget_take(&budget, 1));
	byte_budget_give(&budget, 60);
	assert_true(byte_budget_take(&budget, 60));
	assert_false(byte_budget_take(&budget, SIZE_MAX));
}

TEST(without_a_budget_all_is_granted)
{
	assert_true(byte_budget_take(NULL, SIZE_MAX));
	byte_budget_give(NULL, SIZE_MAX);
}

TEST(a_buffer_takes_what_it_allocates)
{
	struct byte_budget budget = { .bytes_max = 4096 };
	struct buffer buffer = { .budget = &budget, .size_max = 3000 };

	buffer_extend(&buffer, 1500);
	EXPECT_EQ(0, buffer.rc, "fits");
	EXPECT_EQ(buffer.capacity, budget.bytes_taken, "taken");
	buffer_deinit(&buffer);
	EXPECT_EQ(0, budget.bytes_taken, "given back");

	buffer_extend(&buffer, 3000);
	EXPECT_EQ(0, buffer.rc, "again");
	EXPECT_EQ(3001, budget.bytes_taken, "no more than its limit and a NUL");
	buffer_deinit(&buffer);
}

TEST(a_spent_budget_fails_the_buffer)
{
	struct byte_budget budget = { .bytes_max = 4096 };
	_cleanup_(buffer_deinit) struct buffer first = { .budget = &budget };
	_cleanup_(buffer_deinit) struct buffer second = { .budget = &budget };

	buffer_extend(&first, 3000);
	EXPECT_EQ(0, first.rc, "first");
	assert_null(buffer_extend(&second, 1));
	EXPECT_EQ(-EDQUOT, second.rc, "second");
	EXPECT_EQ(first.capacity, budget.bytes_taken, "only the first's");
}

RUN_TESTS(cmocka_unit_test(gives_no_byte_twice), cmocka_unit_test(without_a_budget_all_is_granted),
	  cmocka_unit_test(a_buffer_takes_what_it_allocates),
	  cmocka_unit_test(a_spent_budget_fails_the_buffer))
