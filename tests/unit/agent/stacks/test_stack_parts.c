// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/stack_parts.h"

#include "bpf/unwind/stack_hash.h"
#include "tests/test.h"

enum { NOW_NS = 1000, KERNEL_CALLER = 7, USER_CALLER = 8 };

static const struct stack_hash kernel = { 1, 10 }, user = { 2, 20 }, unknown = { 3, 30 };

static struct joined_stack join(struct stack_hash kernel_part, struct stack_hash user_part,
				enum stack_end user_end)
{
	const uint32_t kernel_callers[] = { KERNEL_CALLER }, user_callers[] = { USER_CALLER };
	const struct stack_parts parts = { .kernel = kernel_part, .user = user_part };
	struct stack_table *stacks = stack_table_new();
	struct joined_stack joined;

	assert_non_null(stacks);
	assert_int_equal(
		0, stack_table_add(stacks, &kernel, kernel_callers, 1, STACK_END_COMPLETE, NOW_NS));
	assert_int_equal(0, stack_table_add(stacks, &user, user_callers, 1, user_end, NOW_NS));
	assert_int_equal(0, stack_parts_join(&parts, NULL, stacks, NOW_NS, &joined));
	stack_table_free(stacks);
	return joined;
}

static const struct stack_hash none;

TEST(joins_kernel_frames_on_top_of_user_frames)
{
	struct joined_stack joined = join(kernel, user, STACK_END_COMPLETE);

	assert_int_equal(2, joined.count);
	assert_int_equal(KERNEL_CALLER, joined.locations[0]);
	assert_int_equal(USER_CALLER, joined.locations[1]);
	assert_int_equal(STACK_END_COMPLETE, joined.end);
	assert_int_equal(0, joined.lost_parts);
}

TEST(ends_as_the_user_part_does)
{
	assert_int_equal(STACK_END_FAULT, join(kernel, user, STACK_END_FAULT).end);
	assert_int_equal(STACK_END_COMPLETE, join(kernel, none, 0).end); // of a kernel thread
}

TEST(marks_a_user_part_that_did_not_arrive)
{
	struct joined_stack joined = join(kernel, unknown, 0);

	assert_int_equal(STACK_END_LOST, joined.end);
	assert_int_equal(1, joined.lost_parts);
}

/* Else the kernel's frames would pass for the whole stack. */
TEST(marks_a_user_part_that_was_not_sampled)
{
	struct joined_stack joined = join(kernel, stack_hash_not_sampled(), 0);

	assert_int_equal(1, joined.count);
	assert_int_equal(STACK_END_NOT_SAMPLED, joined.end);
	assert_int_equal(0, joined.lost_parts);
}

RUN_TESTS(cmocka_unit_test(joins_kernel_frames_on_top_of_user_frames),
	  cmocka_unit_test(ends_as_the_user_part_does),
	  cmocka_unit_test(marks_a_user_part_that_did_not_arrive),
	  cmocka_unit_test(marks_a_user_part_that_was_not_sampled))
