// SPDX-License-Identifier: Apache-2.0
// The shared rules: each once, as long as a table refers to it.

#include <errno.h>
#include <stdlib.h>

#include "tests/test.h"

#include "agent/unwind/unwind_rules.h"

static struct unwind_rule shared[UNWIND_RULES_MAX];

static struct unwind_rules *new_rules(void)
{
	memset(shared, 0, sizeof(shared));
	struct unwind_rules *rules = unwind_rules_new(shared);
	assert_non_null(rules);
	return rules;
}

static struct unwind_rule rule_of(int32_t offset)
{
	return (struct unwind_rule){ .cfa = CFA_REGISTER, .cfa_offset = offset };
}

TEST(equal_rules_share_a_number)
{
	struct unwind_rules *rules = new_rules();
	struct unwind_rule wanted[] = { rule_of(8), rule_of(16), rule_of(8) };
	uint16_t first[3], second[3];

	assert_int_equal(0, unwind_rules_add(rules, wanted, 3, first));
	assert_int_equal(0, unwind_rules_add(rules, wanted, 3, second));
	EXPECT_EQ(first[0], first[2], "the same rule");
	assert_true(first[0] != first[1]);
	assert_memory_equal(first, second, sizeof(first));
	EXPECT_EQ(3, unwind_rules_count(rules), "and number 0");
	assert_memory_equal(&wanted[1], &shared[first[1]], sizeof(wanted[1]));
	unwind_rules_free(rules);
}

TEST(number_0_stays_no_table)
{
	struct unwind_rules *rules = new_rules();
	struct unwind_rule none = { 0 };
	uint16_t number = 7;

	assert_int_equal(0, unwind_rules_add(rules, &none, 1, &number));
	EXPECT_EQ(0, number, "all zero");
	unwind_rules_remove(rules, &number, 1);
	unwind_rules_remove(rules, &number, 1);
	struct unwind_rule other = rule_of(8);
	assert_int_equal(0, unwind_rules_add(rules, &other, 1, &number));
	assert_true(number != 0);
	EXPECT_EQ(CFA_NO_TABLE, shared[0].cfa, "untouched");
	unwind_rules_free(rules);
}

TEST(reuses_only_unreferenced_numbers)
{
	struct unwind_rules *rules = new_rules();
	struct unwind_rule a = rule_of(8), b = rule_of(16), c = rule_of(24);
	uint16_t number_a, again, number_b, number_c;

	assert_int_equal(0, unwind_rules_add(rules, &a, 1, &number_a));
	assert_int_equal(0, unwind_rules_add(rules, &a, 1, &again));
	unwind_rules_remove(rules, &number_a, 1);
	assert_int_equal(0, unwind_rules_add(rules, &b, 1, &number_b));
	assert_true(number_b != number_a);
	unwind_rules_remove(rules, &again, 1);
	assert_int_equal(0, unwind_rules_add(rules, &c, 1, &number_c));
	EXPECT_EQ(number_a, number_c, "free now");
	assert_memory_equal(&c, &shared[number_c], sizeof(c));
	// What was removed is not found under its old number.
	assert_int_equal(0, unwind_rules_add(rules, &a, 1, &again));
	assert_true(again != number_c);
	unwind_rules_free(rules);
}

TEST(refuses_too_many_rules_as_a_whole)
{
	struct unwind_rules *rules = new_rules();
	struct unwind_rule *wanted = calloc(UNWIND_RULES_MAX, sizeof(*wanted));
	uint16_t *numbers = calloc(UNWIND_RULES_MAX, sizeof(*numbers)), number;

	assert_true(wanted && numbers);
	for (int i = 0; i < UNWIND_RULES_MAX; i++)
		wanted[i] = rule_of(i + 1);
	EXPECT_EQ(-ENOSPC, unwind_rules_add(rules, wanted, UNWIND_RULES_MAX, numbers),
		  "one more than there is room for, with number 0");
	EXPECT_EQ(1, unwind_rules_count(rules), "none of them stays");
	EXPECT_EQ(0, unwind_rules_add(rules, wanted, UNWIND_RULES_MAX - 1, numbers), "all");
	EXPECT_EQ(-ENOSPC, unwind_rules_add(rules, &wanted[UNWIND_RULES_MAX - 1], 1, &number),
		  "full");
	EXPECT_EQ(0, unwind_rules_add(rules, wanted, 1, &number), "known ones need no room");
	unwind_rules_free(rules);
	free(wanted);
	free(numbers);
}

RUN_TESTS(cmocka_unit_test(equal_rules_share_a_number), cmocka_unit_test(number_0_stays_no_table),
	  cmocka_unit_test(reuses_only_unreferenced_numbers),
	  cmocka_unit_test(refuses_too_many_rules_as_a_whole))
