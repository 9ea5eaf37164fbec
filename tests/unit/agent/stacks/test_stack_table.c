// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "tests/test.h"

#include "agent/stacks/stack_table.h"

static struct stack_hash hash_of(uint64_t number)
{
	return (struct stack_hash){ .high = number, .low = number * 0x9e3779b97f4a7c15ULL };
}

static struct stack_hash evicted;
static uint32_t evicted_count;

static void evict(void *context, const struct stack_hash *hash)
{
	assert_null(context);
	evicted = *hash;
	evicted_count++;
}

static struct stack_table *new_table(void)
{
	struct stack_table *table = stack_table_new();

	assert_non_null(table);
	return table;
}

static void add(struct stack_table *table, uint64_t number, uint64_t now_ns)
{
	uint32_t locations[] = { 7, 8, 9 };
	struct stack_hash hash = hash_of(number);

	EXPECT_EQ(0, stack_table_add(table, &hash, locations, 3, STACK_END_FAULT, now_ns), "add");
}

static bool is_there(struct stack_table *table, uint64_t number, uint64_t now_ns)
{
	struct stack_hash hash = hash_of(number);

	return stack_table_find(table, &hash, now_ns) != NULL;
}

TEST(finds_a_stack_by_its_hash)
{
	struct stack_table *table = new_table();
	struct stack_hash one = hash_of(1);

	add(table, 1, 0);
	add(table, 2, 0);

	const struct known_stack *stack = stack_table_find(table, &one, 0);

	assert_non_null(stack);
	EXPECT_EQ(3, stack->count, "all callers");
	EXPECT_EQ(9, stack->locations[2], "in order");
	EXPECT_EQ(STACK_END_FAULT, stack->end, "with the reason");
	assert_false(is_there(table, 3, 0));
	stack_table_free(table);
}

TEST(keeps_a_repeated_stack_once)
{
	struct stack_table *table = new_table();

	add(table, 1, 0);
	add(table, 1, 0);
	EXPECT_EQ(1, stack_table_count(table), "one hash");
	stack_table_free(table);
}

TEST(evicts_idle_stacks_from_the_kernel_first)
{
	struct stack_table *table = new_table();
	uint64_t later_ns = STACK_IDLE_NS + 2;

	add(table, 1, 1);
	add(table, 2, 1);
	assert_true(is_there(table, 2, later_ns));

	evicted_count = 0;
	stack_table_expire(table, later_ns, evict, NULL);
	EXPECT_EQ(1, evicted_count, "only the idle one");
	EXPECT_EQ(1, evicted.high, "only the idle one");
	EXPECT_EQ(2, stack_table_count(table), "counts of this interval may refer to it");

	stack_table_expire(table, later_ns, evict, NULL);
	EXPECT_EQ(1, evicted_count, "reported once");
	assert_false(is_there(table, 1, later_ns));
	assert_true(is_there(table, 2, later_ns));
	stack_table_free(table);
}

TEST(an_evicted_stack_stays_if_sent_again)
{
	struct stack_table *table = new_table();
	uint64_t later_ns = STACK_IDLE_NS + 2;

	add(table, 1, 1);
	stack_table_expire(table, later_ns, evict, NULL);
	add(table, 1, later_ns);
	stack_table_expire(table, later_ns, evict, NULL);
	assert_true(is_there(table, 1, later_ns));
	stack_table_free(table);
}

TEST(a_full_table_evicts_least_recently_used)
{
	struct stack_table *table = new_table();
	struct stack_hash one_more = hash_of(STACKS_MAX + 1);

	for (uint32_t i = 1; i <= STACKS_MAX; i++)
		add(table, i, i);
	EXPECT_EQ(-ENOSPC, stack_table_add(table, &one_more, NULL, 0, STACK_END_COMPLETE, 0),
		  "one more");

	evicted_count = 0;
	stack_table_expire(table, STACKS_MAX, evict, NULL);
	EXPECT_EQ(STACKS_MAX / 4, evicted_count, "a quarter goes");
	stack_table_expire(table, STACKS_MAX, evict, NULL);
	EXPECT_EQ(STACKS_MAX / 4 * 3, stack_table_count(table), "a quarter is gone");
	assert_false(is_there(table, 1, STACKS_MAX));
	assert_true(is_there(table, STACKS_MAX, STACKS_MAX));
	EXPECT_EQ(0, stack_table_add(table, &one_more, NULL, 0, STACK_END_COMPLETE, 0),
		  "room again");
	stack_table_free(table);
}

RUN_TESTS(cmocka_unit_test(finds_a_stack_by_its_hash),
	  cmocka_unit_test(keeps_a_repeated_stack_once),
	  cmocka_unit_test(evicts_idle_stacks_from_the_kernel_first),
	  cmocka_unit_test(an_evicted_stack_stays_if_sent_again),
	  cmocka_unit_test(a_full_table_evicts_least_recently_used))
