// SPDX-License-Identifier: Apache-2.0
// Shares of what all use: whoever wants much leaves half, a newcomer finds room, debts are paid.
#include "agent/guard/shares.h"

#include "tests/test.h"

static struct shares shares;

static void clear(void)
{
	shares = (struct shares){ 0 };
}

/* Takes one after the other until it may not. */
static uint64_t take_all(uint64_t payer, uint64_t *taken, uint64_t all)
{
	uint64_t count = 0;

	while (shares_may_take(&shares, payer, *taken, all)) {
		shares_take(&shares, payer, 1);
		++*taken;
		count++;
	}
	return count;
}

TEST(one_payer_leaves_half)
{
	uint64_t taken = 0;

	clear();
	EXPECT_EQ(128, take_all(1, &taken, 256), "the first");
	EXPECT_EQ(64, take_all(2, &taken, 256), "the second");
	EXPECT_EQ(32, take_all(3, &taken, 256), "the third");
	EXPECT_EQ(0, take_all(1, &taken, 256), "the first once more");
}

TEST(unowned_use_has_only_total_limit)
{
	uint64_t taken = 0;

	clear();
	EXPECT_EQ(256, take_all(0, &taken, 256), "nobody");
	EXPECT_EQ(0, shares_of(&shares, 0), "nobody's share");
	EXPECT_EQ(0, shares.count, "shares");
}

TEST(debts_are_paid_in_parts)
{
	clear();
	shares_take(&shares, 1, 100);
	shares_take(&shares, 2, 30);
	shares_take(&shares, 3, 40);
	shares_give_back_all(&shares, 40);
	EXPECT_EQ(60, shares_of(&shares, 1), "the first");
	EXPECT_EQ(0, shares_of(&shares, 2), "the second");
	EXPECT_EQ(1, shares.count, "shares");
	shares_give_back(&shares, 1, 100);
	shares_give_back(&shares, 7, 100);
	EXPECT_EQ(0, shares.count, "shares");
}

TEST(finds_largest_payer)
{
	clear();
	EXPECT_EQ(0, shares_greediest(&shares), "of none");
	shares_take(&shares, 1, 5);
	shares_take(&shares, 2, 7);
	shares_take(&shares, 3, 6);
	EXPECT_EQ(2, shares_greediest(&shares), "of three");
}

TEST(evicts_smallest_payer)
{
	clear();
	for (uint64_t payer = 1; payer <= SHARES_MAX; payer++)
		shares_take(&shares, payer, payer == 9 ? 1 : 10);
	shares_take(&shares, 10000, 5);
	EXPECT_EQ(0, shares_of(&shares, 9), "the least");
	EXPECT_EQ(10, shares_of(&shares, 10), "another");
	EXPECT_EQ(5, shares_of(&shares, 10000), "the new one");
}

RUN_TESTS(cmocka_unit_test(one_payer_leaves_half),
	  cmocka_unit_test(unowned_use_has_only_total_limit),
	  cmocka_unit_test(debts_are_paid_in_parts), cmocka_unit_test(finds_largest_payer),
	  cmocka_unit_test(evicts_smallest_payer))
