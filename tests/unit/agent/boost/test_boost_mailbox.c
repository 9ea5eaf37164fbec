// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "agent/boost/boost_mailbox.h"

TEST(gives_the_latest_answer_once)
{
	struct boost_mailbox mailbox = BOOST_MAILBOX_INIT;
	const struct boost boosts[] = { { .id = 1 }, { .id = 2 } };
	struct boost taken[BOOSTS_OF_AGENT_MAX];
	uint64_t received_ns = 0;
	uint32_t count = 9;

	EXPECT_EQ(false, boost_mailbox_take(&mailbox, taken, &count, &received_ns), "none yet");
	boost_mailbox_put(&mailbox, boosts, 2, 5);
	boost_mailbox_put(&mailbox, &boosts[1], 1, 6);
	EXPECT_EQ(true, boost_mailbox_take(&mailbox, taken, &count, &received_ns), "the latest");
	EXPECT_EQ(1, count, "count");
	EXPECT_EQ(2, taken[0].id, "id");
	EXPECT_EQ(6, received_ns, "time");
	EXPECT_EQ(false, boost_mailbox_take(&mailbox, taken, &count, &received_ns), "once");
	boost_mailbox_put(&mailbox, NULL, 0, 7);
	EXPECT_EQ(true, boost_mailbox_take(&mailbox, taken, &count, &received_ns), "an empty one");
	EXPECT_EQ(0, count, "none");
}

TEST(keeps_the_report)
{
	struct boost_mailbox mailbox = BOOST_MAILBOX_INIT;
	const struct boost_report report = { .states = { { .id = 7, .hz = 999 } }, .count = 1 };
	struct boost_report read;

	boost_mailbox_read_report(&mailbox, &read);
	EXPECT_EQ(0, read.count, "none yet");
	boost_mailbox_set_report(&mailbox, &report);
	for (int i = 0; i < 2; i++) {
		boost_mailbox_read_report(&mailbox, &read);
		EXPECT_EQ(1, read.count, "for each try");
		EXPECT_EQ(999, read.states[0].hz, "rate");
	}
}

RUN_TESTS(cmocka_unit_test(gives_the_latest_answer_once), cmocka_unit_test(keeps_the_report))
