// SPDX-License-Identifier: Apache-2.0
// When the collector's clock is in doubt, and what ends it.
#include "tests/test.h"

#include "base/cleanup.h"
#include "collector/store/clock_guard.h"

#define START_S 1700000000LL
#define HOUR_S  3600LL

/** The clock is @ahead_s from the true time, @passed_s after the start. */
static struct clock_reading reading(int64_t passed_s, int64_t ahead_s)
{
	return (struct clock_reading){ (uint64_t)(START_S + passed_s + ahead_s) * NS_PER_SECOND,
				       (uint64_t)(100 + passed_s) * NS_PER_SECOND };
}

static enum clock_doubt check_at(struct clock_guard *guard, int64_t passed_s, int64_t ahead_s)
{
	struct clock_reading now = reading(passed_s, ahead_s);

	return clock_guard_check(guard, &now);
}

/** An agent whose clock is @agent_ahead_s from the true time sends a batch. */
static void vote(struct clock_guard *guard, uint64_t agent, int64_t passed_s, int64_t ahead_s,
		 int64_t agent_ahead_s)
{
	struct clock_reading now = reading(passed_s, ahead_s);

	clock_guard_vote(guard, (struct id128){ agent, 0 },
			 (uint64_t)(START_S + passed_s + agent_ahead_s) * NS_PER_SECOND, &now);
}

static const struct {
	const char *what;
	int64_t mark_ago_s; // before the start; 0: none
	bool accepted;
	enum clock_doubt doubt;
} starts[] = {
	{ "a new store", 0, false, CLOCK_TRUSTED },
	{ "a restart", 10, false, CLOCK_TRUSTED },
	{ "a little behind", -200, false, CLOCK_TRUSTED },
	{ "2 h behind", -2 * HOUR_S, false, CLOCK_BEHIND_MARK },
	{ "after a stop of 2 h", 2 * HOUR_S, false, CLOCK_UNCONFIRMED },
	{ "8 days later", 8 * 24 * HOUR_S, false, CLOCK_UNCONFIRMED },
	{ "8 days later, confirmed", 8 * 24 * HOUR_S, true, CLOCK_TRUSTED },
	{ "2 h behind, confirmed", -2 * HOUR_S, true, CLOCK_TRUSTED },
};

TEST(holds_the_clock_against_the_mark)
{
	for EACH (row, starts) {
		struct clock_guard guard;
		struct clock_reading now = reading(0, 0);
		uint64_t mark_ns =
			row->mark_ago_s ? (uint64_t)(START_S - row->mark_ago_s) * NS_PER_SECOND : 0;

		clock_guard_begin(&guard, mark_ns, row->accepted, &now);
		EXPECT_EQ(row->doubt, check_at(&guard, 1, 0), row->what);
	}
}

static void begin(struct clock_guard *guard)
{
	struct clock_reading now = reading(0, 0);

	clock_guard_begin(guard, 0, false, &now);
}

TEST(a_jump_lasts_until_it_is_undone)
{
	static const int64_t jumps[] = { 8 * 24 * HOUR_S, -2 * HOUR_S, 301, -301 };
	char text[160];

	for EACH (jump, jumps) {
		struct clock_guard guard;

		begin(&guard);
		for (int64_t second = 1; second < 10; second++)
			EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, second, 0), "before");
		uint64_t mark_ns = guard.mark_ns;
		for (int64_t second = 10; second < 5000; second += 7)
			EXPECT_EQ(CLOCK_JUMPED, check_at(&guard, second, *jump), "jumped");
		EXPECT_EQ(mark_ns, guard.mark_ns, "the mark stays");
		EXPECT_EQ(true, clock_guard_is_wrong(&guard), "agents keep their rows");
		clock_guard_describe(&guard, text, sizeof(text));
		assert_non_null(strstr(text, "it jumped by "));
		EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, 5000, 0), "undone");
		clock_guard_describe(&guard, text, sizeof(text));
		assert_string_equal("", text);
	}
}

TEST(slewing_is_no_jump)
{
	struct clock_guard guard;

	begin(&guard);
	for (int64_t second = 1; second < 5000; second++)
		EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, second, second / 10), "slewed");
}

TEST(agents_confirm_a_clock)
{
	struct clock_guard guard;
	int64_t ahead_s = 2 * HOUR_S; // what the agents have, too: this clock was wrong before

	begin(&guard);
	EXPECT_EQ(CLOCK_JUMPED, check_at(&guard, 10, ahead_s), "jumped");
	vote(&guard, 1, 11, ahead_s, 0);
	EXPECT_EQ(CLOCK_JUMPED, check_at(&guard, 11, ahead_s), "one does not agree");
	vote(&guard, 2, 12, ahead_s, ahead_s);
	EXPECT_EQ(CLOCK_JUMPED, check_at(&guard, 12, ahead_s), "one of two agrees");
	vote(&guard, 3, 13, ahead_s, ahead_s + 60);
	EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, 13, ahead_s), "two of three agree");
	EXPECT_EQ((START_S + 13 + ahead_s) * (int64_t)NS_PER_SECOND, guard.mark_ns, "mark");
}

TEST(one_wrong_agent_does_not_decide)
{
	struct clock_guard guard;

	begin(&guard);
	for (uint64_t agent = 1; agent <= 3; agent++)
		vote(&guard, agent, 1, 0, agent == 1 ? 5 * HOUR_S : -(int64_t)agent);
	EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, 2, 0), "one of three");
	vote(&guard, 2, 3, 0, 4 * HOUR_S);
	EXPECT_EQ(CLOCK_AGENTS_AHEAD, check_at(&guard, 4, 0), "two of three");
	EXPECT_EQ(false, clock_guard_is_wrong(&guard), "it may be theirs that are wrong");
	EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, 100, 0), "they have gone");
}

TEST(waiting_batches_say_nothing)
{
	struct clock_guard guard;

	begin(&guard);
	for (uint64_t agent = 1; agent <= 30; agent++)
		vote(&guard, agent, 1, 0, -3 * HOUR_S);
	EXPECT_EQ(CLOCK_TRUSTED, check_at(&guard, 2, 0), "spooled");
}

TEST(survives_any_time_of_a_batch)
{
	static const uint64_t times[] = { 0, 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX };
	struct clock_guard guard;
	struct clock_reading now = reading(1, 0);

	begin(&guard);
	for (uint64_t agent = 0; agent < 1000; agent++) {
		clock_guard_vote(&guard, (struct id128){ agent, 1 },
				 times[agent % ARRAY_SIZE(times)], &now);
		clock_guard_check(&guard, &now);
	}
	EXPECT_EQ(CLOCK_VOTES_MAX, guard.vote_count, "bounded");
}

RUN_TESTS(cmocka_unit_test(holds_the_clock_against_the_mark),
	  cmocka_unit_test(a_jump_lasts_until_it_is_undone), cmocka_unit_test(slewing_is_no_jump),
	  cmocka_unit_test(agents_confirm_a_clock),
	  cmocka_unit_test(one_wrong_agent_does_not_decide),
	  cmocka_unit_test(waiting_batches_say_nothing),
	  cmocka_unit_test(survives_any_time_of_a_batch))
