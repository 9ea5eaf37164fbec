// SPDX-License-Identifier: Apache-2.0
// The program is linked with ACCOUNTED (Makefile): its malloc() is accounted for.
#include "base/memory_account.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tests/test.h"

enum { MIB = 1 << 20, BUDGET = 8 * MIB };

/** So that the compiler leaves no allocation out. */
static void *volatile kept;

TEST(takes_what_the_thread_allocates)
{
	struct byte_budget budget = { .bytes_max = BUDGET };
	struct memory_account account;

	kept = malloc(MIB);
	EXPECT_EQ(0, budget.bytes_taken, "before it begins");
	memory_account_begin(&account, &budget);
	void *before = kept, *bytes = malloc(MIB), *zeros = calloc(MIB, 1), *copy = NULL;
	assert_true(budget.bytes_taken >= 2 * MIB);
	bytes = realloc(bytes, 3 * MIB);
	assert_true(budget.bytes_taken >= 4 * MIB);
	memset(zeros, 'x', MIB - 1);
	copy = strdup(zeros);
	assert_true(budget.bytes_taken >= 5 * MIB);
	free(bytes);
	assert_true(budget.bytes_taken < 2 * MIB + 4 * MEMORY_ACCOUNT_STEP_BYTES);
	free(copy);
	free(zeros);
	free(before);
	assert_true(budget.bytes_taken <= 2 * MEMORY_ACCOUNT_STEP_BYTES);
	memory_account_end(&account);
	EXPECT_EQ(0, budget.bytes_taken, "after the end");
	EXPECT_EQ(0, memory_account_check(&account, NULL), "nothing was refused");
}

TEST(refuses_what_is_beyond_the_budget)
{
	struct byte_budget budget = { .bytes_max = BUDGET };
	struct memory_account account;
	struct error err = { 0 };

	memory_account_begin(&account, &budget);
	void *bytes = malloc(5 * MIB);
	assert_true(bytes);
	assert_true(!malloc(4 * MIB));
	EXPECT_EQ(ENOMEM, errno, "errno");
	assert_true(!calloc(4, MIB));
	kept = bytes;
	assert_true(!realloc(kept, 9 * MIB));
	memset(kept, 1, 5 * MIB); // it is there still
	free(kept);
	memory_account_end(&account);
	EXPECT_EQ(-E2BIG, memory_account_check(&account, &err), "alone, too");
	assert_non_null(strstr(err.text, "--memory"));
	EXPECT_EQ(0, budget.bytes_taken, "all is given back");
}

TEST(the_first_goes_on_beside_others)
{
	struct byte_budget budget = { .bytes_max = BUDGET };
	struct memory_account first, second;

	memory_account_begin(&first, &budget);
	memory_account_begin(&second, &budget); // as another thread's
	void *others = malloc(5 * MIB);
	assert_true(!others);
	others = malloc(3 * MIB);
	assert_true(others);
	memory_account_resume(&first);
	void *bytes = malloc(4 * MIB);
	assert_true(bytes);
	free(bytes);
	memory_account_end(&first);
	memory_account_resume(&second);
	bytes = malloc(4 * MIB);
	assert_true(bytes);
	free(bytes);
	free(others);
	memory_account_end(&second);
	memory_account_resume(NULL);
	EXPECT_EQ(-EDQUOT, memory_account_check(&second, NULL), "another time it may fit");
	EXPECT_EQ(0, budget.bytes_taken, "all is given back");
}

TEST(knows_how_much_is_left)
{
	struct byte_budget budget = { .bytes_max = BUDGET };
	struct memory_account first, second;

	assert_true(memory_account_left() == SIZE_MAX);
	memory_account_begin(&first, &budget);
	assert_true(memory_account_left() == BUDGET);
	void *bytes = malloc(2 * MIB);
	assert_true(memory_account_left() <= 6 * MIB);
	assert_true(memory_account_left() > 6 * MIB - MEMORY_ACCOUNT_STEP_BYTES);
	memory_account_begin(&second, &budget); // as another thread's: to half of all
	assert_true(memory_account_left() <= 2 * MIB);
	kept = malloc(memory_account_left() - MEMORY_ACCOUNT_STEP_BYTES);
	assert_non_null(kept);
	assert_true(memory_account_left() < MEMORY_ACCOUNT_STEP_BYTES);
	free(kept);
	memory_account_end(&second);
	free(bytes);
	memory_account_end(&first);
}

TEST(leaves_caches_and_budgeted_buffers_out)
{
	struct byte_budget budget = { .bytes_max = BUDGET }, other = { .bytes_max = BUDGET };
	struct buffer answer = { .budget = &other };
	struct memory_account account;

	memory_account_begin(&account, &budget);
	struct memory_account *paused = memory_account_pause();
	kept = malloc(MIB);
	memory_account_resume(paused);
	buffer_extend(&answer, 2 * MIB);
	assert_true(budget.bytes_taken < MIB);
	assert_true(other.bytes_taken >= 2 * MIB);
	memory_account_end(&account);
	assert_true(other.bytes_taken >= 2 * MIB);
	buffer_deinit(&answer);
	free(kept);
}

TEST(those_who_share_a_part_have_no_more_together)
{
	struct byte_budget budget = { .bytes_max = BUDGET }, part = { 0 };
	struct memory_account first, second, other;

	memory_account_begin(&first, &budget);
	memory_account_share(&first, &part, 2 * MIB);
	EXPECT_EQ(2 * MIB, memory_account_left(), "of the part, not of the budget");
	void *held = malloc(MIB);
	assert_true(held);
	memory_account_begin(&second, &budget); // as another thread's
	memory_account_share(&second, &part, 2 * MIB);
	assert_true(!malloc(MIB + MIB / 2));
	assert_true(!malloc(MIB + MIB / 2)); // and again
	EXPECT_EQ(true, second.is_part_full, "the part, not the budget");
	EXPECT_EQ(false, second.is_part_small, "alone it would fit");
	EXPECT_EQ(true, part.bytes_taken <= 2 * MIB, "the part");
	memory_account_end(&second);
	EXPECT_EQ(-EDQUOT, memory_account_check(&second, NULL), "refused");
	// Whoever does not share it has the budget.
	memory_account_begin(&other, &budget);
	void *bytes = malloc(2 * MIB);
	assert_true(bytes);
	EXPECT_EQ(false, other.is_part_full, "another's");
	free(bytes);
	memory_account_end(&other);
	memory_account_resume(&first);
	assert_true(!malloc(MIB - 1000)); // within the part, but not in steps
	EXPECT_EQ(true, first.is_part_small, "alone, too");
	free(held);
	memory_account_end(&first);
	memory_account_resume(NULL);
	EXPECT_EQ(0, part.bytes_taken, "the part is given back");
	EXPECT_EQ(0, budget.bytes_taken, "all is given back");
}

TEST(a_full_budget_takes_nothing_of_the_part)
{
	struct byte_budget budget = { .bytes_max = MIB }, part = { 0 };
	struct memory_account account;

	memory_account_begin(&account, &budget);
	memory_account_share(&account, &part, 8 * MIB);
	assert_true(!malloc(2 * MIB));
	EXPECT_EQ(false, account.is_part_full, "the budget was full");
	EXPECT_EQ(0, part.bytes_taken, "nothing is kept");
	memory_account_end(&account);
	EXPECT_EQ(-E2BIG, memory_account_check(&account, NULL), "beyond the budget");
}

RUN_TESTS(cmocka_unit_test(those_who_share_a_part_have_no_more_together),
	  cmocka_unit_test(a_full_budget_takes_nothing_of_the_part),
	  cmocka_unit_test(takes_what_the_thread_allocates),
	  cmocka_unit_test(refuses_what_is_beyond_the_budget),
	  cmocka_unit_test(the_first_goes_on_beside_others),
	  cmocka_unit_test(knows_how_much_is_left),
	  cmocka_unit_test(leaves_caches_and_budgeted_buffers_out))
