// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "agent/boost/boosts.h"

static const struct boost rate = { .id = 1, .left_ms = 60000, .hz = 999 };
static const struct boost wakers = {
	.id = 2, .left_ms = 60000, .profiles = BOOST_WAKERS, .services = "llm,web"
};
static const struct boost stop = { .id = 3, .left_ms = 60000, .stop = true };

static struct boosts boosts_within(uint32_t hz_max)
{
	return (struct boosts){ .limits.hz_max = hz_max };
}

static struct boost_demand demand_of(const struct boosts *boosts)
{
	struct boost_demand demand;

	boosts_demand(boosts, &demand);
	return demand;
}

/* The collector answers every 5 s from @from_s to @to_s. */
static void answer_until(struct boosts *boosts, const struct boost *boost, uint64_t from_s,
			 uint64_t to_s)
{
	for (uint64_t s = from_s; s <= to_s; s += 5) {
		struct boost now = *boost;

		now.left_ms -= (uint32_t)(s - from_s) * 1000;
		boosts_receive(boosts, &now, 1, s * NS_PER_SECOND);
		boosts_expire(boosts, s * NS_PER_SECOND);
	}
}

TEST(demands_nothing_at_first)
{
	static const struct boost_demand nothing;
	struct boosts boosts = boosts_within(999);
	struct boost_demand demand = demand_of(&boosts);

	boosts_expire(&boosts, 0);
	assert_memory_equal(&nothing, &demand, sizeof(demand));
}

TEST(ends_when_its_time_is_over)
{
	struct boosts boosts = boosts_within(999);

	answer_until(&boosts, &rate, 100, 155);
	EXPECT_EQ(999, demand_of(&boosts).hz, "in force");
	boosts_expire(&boosts, 160 * NS_PER_SECOND - 1);
	EXPECT_EQ(999, demand_of(&boosts).hz, "to the last moment");
	boosts_expire(&boosts, 160 * NS_PER_SECOND);
	EXPECT_EQ(0, demand_of(&boosts).hz, "over");
}

TEST(ends_when_an_answer_lacks_it)
{
	struct boosts boosts = boosts_within(999);
	const struct boost both[] = { rate, wakers };

	boosts_receive(&boosts, both, 2, NS_PER_SECOND);
	EXPECT_STR("llm,web", demand_of(&boosts).services, "services");
	boosts_receive(&boosts, &wakers, 1, 2 * NS_PER_SECOND);
	EXPECT_EQ(0, demand_of(&boosts).hz, "ended");
	EXPECT_EQ(BOOST_WAKERS, demand_of(&boosts).profiles, "the other goes on");
	EXPECT_EQ(2, boosts.begun, "begun");
}

TEST(ends_when_the_collector_is_gone)
{
	struct boosts boosts = boosts_within(999);

	boosts_receive(&boosts, &stop, 1, NS_PER_SECOND);
	boosts_expire(&boosts, NS_PER_SECOND + BOOST_LEASE_NS - 1);
	EXPECT_EQ(true, demand_of(&boosts).stop, "within the lease");
	boosts_expire(&boosts, NS_PER_SECOND + BOOST_LEASE_NS);
	EXPECT_EQ(false, demand_of(&boosts).stop, "over");
}

TEST(long_intervals_have_a_longer_lease)
{
	struct boosts boosts = { .limits = { .hz_max = 999, .interval_ns = 60 * NS_PER_SECOND } };
	struct boost longer = rate;

	longer.left_ms = 600000;
	boosts_receive(&boosts, &longer, 1, 0);
	boosts_expire(&boosts, 180 * NS_PER_SECOND - 1);
	EXPECT_EQ(999, demand_of(&boosts).hz, "two answers are missing");
	boosts_expire(&boosts, 180 * NS_PER_SECOND);
	EXPECT_EQ(0, demand_of(&boosts).hz, "over");
}

// Answer by answer, a collector says that a minute is left.
TEST(no_answer_stretches_a_boost)
{
	struct boosts boosts = boosts_within(999);

	for (uint64_t s = 0; s < 60; s += 5)
		boosts_receive(&boosts, &rate, 1, s * NS_PER_SECOND);
	boosts_expire(&boosts, 60 * NS_PER_SECOND);
	EXPECT_EQ(0, boosts.count, "over after its first minute");
}

static const struct {
	const char *what;
	uint32_t hz_max;
	struct boost boost;
	struct boost_demand demand;
	uint64_t ends_s;
} hostile[] = {
	{ "boosts are off",
	  0,
	  { .id = 1, .left_ms = 1000, .hz = 999, .stop = true, .profiles = 7 },
	  {},
	  1 },
	{ "a rate above the limit",
	  499,
	  { .id = 1, .left_ms = 1000, .hz = 1000 },
	  { .hz = 499 },
	  1 },
	{ "a rate of 32 bits",
	  499,
	  { .id = 1, .left_ms = 1000, .hz = UINT32_MAX },
	  { .hz = 499 },
	  1 },
	{ "no rate", 499, { .id = 1, .left_ms = 1000 }, {}, 1 },
	{ "profiles that there are not",
	  499,
	  { .id = 1, .left_ms = 1000, .profiles = ~7U },
	  {},
	  1 },
	{ "49 days", 499, { .id = 1, .left_ms = UINT32_MAX, .hz = 1 }, { .hz = 1 }, 3600 },
};

TEST(its_own_limits_bound_each_boost)
{
	for EACH (row, hostile) {
		struct boosts boosts = boosts_within(row->hz_max);
		struct boost_demand demand;

		boosts.limits.interval_ns = 7200 * NS_PER_SECOND;
		boosts_receive(&boosts, &row->boost, 1, 0);
		demand = demand_of(&boosts);
		EXPECT_EQ(row->demand.hz, demand.hz, row->what);
		EXPECT_EQ(row->demand.profiles, demand.profiles, row->what);
		EXPECT_EQ(row->demand.stop, demand.stop, row->what);
		boosts_expire(&boosts, row->ends_s * NS_PER_SECOND - 1);
		EXPECT_EQ(1, boosts.count, row->what);
		boosts_expire(&boosts, row->ends_s * NS_PER_SECOND);
		EXPECT_EQ(0, boosts.count, row->what);
	}
}

TEST(several_boosts_add_up)
{
	struct boosts boosts = boosts_within(999);
	struct boost more = wakers, longest = wakers;
	const struct boost slow = { .id = 5, .left_ms = 1, .hz = 199, .profiles = BOOST_WALL };

	more.id = 6;
	strcpy(more.services, "db");
	const struct boost all[] = { rate, wakers, slow, more };
	boosts_receive(&boosts, all, 4, 0);
	struct boost_demand demand = demand_of(&boosts);
	EXPECT_EQ(999, demand.hz, "the highest rate");
	EXPECT_EQ(BOOST_WALL | BOOST_WAKERS, demand.profiles, "all profiles");
	EXPECT_STR("llm,web,db", demand.services, "all services");
	EXPECT_EQ(false, demand.stop, "no stop");
	memset(longest.services, 'x', BOOST_SERVICES_BYTES - 1);
	const struct boost long_ones[] = { longest, more };
	boosts_receive(&boosts, long_ones, 2, 0);
	demand = demand_of(&boosts);
	EXPECT_EQ(0, strlen(demand.services) >= BOOST_SERVICES_BYTES, "the list is bounded");
}

TEST(boosts_of_one_id_count_once)
{
	struct boosts boosts = boosts_within(999);
	const struct boost twice[] = { rate, rate };

	boosts_receive(&boosts, twice, 2, 0);
	EXPECT_EQ(1, boosts.count, "count");
	EXPECT_EQ(1, boosts.begun, "begun");
}

TEST(reports_what_it_does_and_refuses)
{
	struct boosts boosts = boosts_within(499), off = boosts_within(0);
	const struct boost all[] = { rate, wakers, stop };
	struct boost_report report;

	boosts_receive(&boosts, all, 3, 0);
	boosts_report(&boosts, 499, BOOST_WALL | BOOST_WAKERS, false, &report);
	EXPECT_EQ(3, report.count, "count");
	EXPECT_EQ(499, report.states[0].hz, "rate");
	EXPECT_EQ(499, report.states[0].hz_max, "limit");
	EXPECT_EQ(0, report.states[0].profiles, "none asked for");
	EXPECT_EQ(BOOST_WAKERS, report.states[1].profiles, "of those asked for");
	EXPECT_EQ(false, report.states[2].stopped, "not stopped");
	boosts_report(&boosts, 499, 0, true, &report);
	EXPECT_EQ(false, report.states[0].stopped, "not by this one");
	EXPECT_EQ(true, report.states[2].stopped, "stopped");
	boosts_receive(&off, all, 3, 0);
	boosts_report(&off, 99, BOOST_WAKERS, false, &report);
	EXPECT_EQ(0, report.states[1].hz_max, "off");
	EXPECT_EQ(0, report.states[1].profiles, "nothing by the boost");
	EXPECT_EQ(3, off.refused, "refused");
	EXPECT_EQ(0, off.begun, "begun");
}

RUN_TESTS(cmocka_unit_test(demands_nothing_at_first), cmocka_unit_test(ends_when_its_time_is_over),
	  cmocka_unit_test(ends_when_an_answer_lacks_it),
	  cmocka_unit_test(ends_when_the_collector_is_gone),
	  cmocka_unit_test(long_intervals_have_a_longer_lease),
	  cmocka_unit_test(no_answer_stretches_a_boost),
	  cmocka_unit_test(its_own_limits_bound_each_boost),
	  cmocka_unit_test(several_boosts_add_up), cmocka_unit_test(boosts_of_one_id_count_once),
	  cmocka_unit_test(reports_what_it_does_and_refuses))
