// SPDX-License-Identifier: Apache-2.0
// Space for tables between payers: half at most by samples, and an equal part for who comes later.
#include "agent/publish/table_shares.h"

#include "tests/test.h"

enum { FIRST = 7, SECOND = 8, ALL = 100 };

static struct table_shares divide(uint64_t first, uint64_t second, uint64_t several)
{
	struct table_shares shares = { .bytes_max = ALL };

	table_shares_add(&shares, (struct table_share){ FIRST, first });
	table_shares_add(&shares, (struct table_share){ SECOND, second });
	table_shares_add(&shares, (struct table_share){ SHARES_SEVERAL, several });
	return shares;
}

TEST(samples_push_out_up_to_half)
{
	const struct table_shares shares = divide(40, 40, 20);
	const struct table_share others = { SECOND, 10 };

	EXPECT_EQ(true,
		  table_shares_may_push_out(&shares, (struct table_share){ FIRST, 10 }, others),
		  "half");
	EXPECT_EQ(false,
		  table_shares_may_push_out(&shares, (struct table_share){ FIRST, 11 }, others),
		  "more than half");
	EXPECT_EQ(true,
		  table_shares_may_push_out(&shares, (struct table_share){ SECOND, 40 }, others),
		  "its own");
	EXPECT_EQ(true, table_shares_may_push_out(&shares, (struct table_share){ 0, 50 }, others),
		  "nobody's");
}

static const struct {
	const char *what;
	uint64_t first, second, several; // what they have
	struct table_share wanting, loser;
	bool is_let_in;
} rows[] = {
	{ "a newcomer", 100, 0, 0, { SECOND, 30 }, { FIRST, 30 }, true },
	{ "who has less", 70, 30, 0, { SECOND, 10 }, { FIRST, 30 }, true },
	{ "who would have more", 70, 30, 0, { SECOND, 11 }, { FIRST, 30 }, false },
	{ "of as many", 50, 50, 0, { SECOND, 1 }, { FIRST, 1 }, false },
	{ "the same payer's", 100, 0, 0, { FIRST, 10 }, { FIRST, 10 }, false },
	{ "of nobody", 10, 0, 0, { SECOND, 1 }, { 0, 5 }, false },
	{ "of several who have half", 20, 0, 50, { SECOND, 10 }, { SHARES_SEVERAL, 10 }, false },
	{ "of several who have more", 20, 0, 60, { SECOND, 10 }, { SHARES_SEVERAL, 10 }, true },
};

TEST(largest_payer_yields)
{
	for EACH (row, rows) {
		const struct table_shares shares = divide(row->first, row->second, row->several);

		EXPECT_EQ(row->is_let_in, table_shares_lets_in(&shares, row->wanting, row->loser),
			  row->what);
	}
}

TEST(counts_removed_tables_once)
{
	struct table_shares shares = divide(100, 0, 0);
	const struct table_share wanting = { SECOND, 40 }, loser = { FIRST, 50 };

	EXPECT_EQ(true, table_shares_lets_in(&shares, wanting, loser), "the first");
	table_shares_remove(&shares, loser);
	EXPECT_EQ(false, table_shares_lets_in(&shares, wanting, loser), "the next");
}

RUN_TESTS(cmocka_unit_test(samples_push_out_up_to_half), cmocka_unit_test(largest_payer_yields),
	  cmocka_unit_test(counts_removed_tables_once))
