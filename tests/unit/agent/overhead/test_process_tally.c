// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "agent/overhead/process_tally.h"

TEST(sorts_most_active_first)
{
	struct process_tally tally = { 0 };
	struct process_count most[3];

	EXPECT_EQ(0, process_tally_most(&tally, most, 3), "empty");
	for (uint32_t pid = 1; pid <= 1000; pid++)
		process_tally_add(&tally, pid, pid * 7919 % 1000); // distinct: 7919 is a prime
	process_tally_add(&tally, 5, 5000);
	process_tally_add(&tally, 6, 6000);
	EXPECT_EQ(3, process_tally_most(&tally, most, 3), "as many as there is room for");
	EXPECT_EQ(6, most[0].pid, "first");
	EXPECT_EQ(6000 + 6 * 7919 % 1000, most[0].count, "its counts are added");
	EXPECT_EQ(5, most[1].pid, "second");
	EXPECT_EQ(999, most[2].count, "third");
	EXPECT_EQ(999 * 1000 / 2 + 11000, tally.sum, "sum");

	process_tally_clear(&tally);
	process_tally_add(&tally, 9, 1);
	EXPECT_EQ(1, process_tally_most(&tally, most, 3), "one is left");
	EXPECT_EQ(9, most[0].pid, "the new one");
	EXPECT_EQ(1, tally.sum, "sum");
	process_tally_deinit(&tally);
}

TEST(leaves_out_removed_processes)
{
	struct process_tally tally = { 0 };
	struct process_count most[3];

	for (uint32_t pid = 1; pid <= 3; pid++)
		process_tally_add(&tally, pid, pid * 10);
	process_tally_remove(&tally, 3);
	process_tally_remove(&tally, 4);
	EXPECT_EQ(2, process_tally_most(&tally, most, 3), "two are left");
	EXPECT_EQ(2, most[0].pid, "first");
	EXPECT_EQ(30, tally.sum, "sum");
	process_tally_add(&tally, 3, 5);
	EXPECT_EQ(3, process_tally_most(&tally, most, 3), "it is back");
	process_tally_deinit(&tally);
}

TEST(sums_processes_beyond_limit)
{
	struct process_tally tally = { 0 };

	for (uint32_t pid = 1; pid <= PROCESS_TALLY_MAX + 10; pid++)
		process_tally_add(&tally, pid, 1);
	EXPECT_EQ(PROCESS_TALLY_MAX, tally.count, "told apart");
	EXPECT_EQ(PROCESS_TALLY_MAX + 10, tally.sum, "sum");
	process_tally_deinit(&tally);
}

RUN_TESTS(cmocka_unit_test(sorts_most_active_first), cmocka_unit_test(leaves_out_removed_processes),
	  cmocka_unit_test(sums_processes_beyond_limit))
