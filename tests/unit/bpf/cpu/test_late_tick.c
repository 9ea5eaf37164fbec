// SPDX-License-Identifier: Apache-2.0
// What a late tick charges to the task that it hits, and how old the run queue's clock is.

#include <stdlib.h>

#include "tests/test.h"

#include "bpf/cpu/late_tick.h"

TEST(weighs_grid_points_since_the_task_began)
{
	static const struct {
		const char *what;
		unsigned long long elapsed, ran, expected;
	} cases[] = {
		{ "began after the tick was due", 35, 10, 0 },
		{ "began a while before it was due", 35, 18, 20 },
		{ "began when it was due", 35, 15, 0 },
		{ "came in time, others were dropped", 400, 9, 20 },
		{ "came a little early, others were dropped", 399, 9, 20 },
		{ "two more were due, one since it began", 70, 25, 20 },
		{ "two more were due since it began", 70, 45, 40 },
		{ "ran all the time", 70, 500, 60 },
		{ "has just begun", 70, 0, 0 },
	};

	for EACH (c, cases)
		EXPECT_EQ(c->expected, late_tick_weight(c->elapsed, 20, c->ran), c->what);
}

/* A CPU that sleeps and works in turns, whose timer is late after each sleep: what its ticks weigh is what it worked. */
TEST(late_ticks_weigh_what_tasks_run)
{
	enum { PERIOD = 2000, RUNS = 100000 };
	unsigned long long now = 0, ran = 0, weight = 0, plain = 0;

	srand(1);
	for (unsigned int i = 0; i < RUNS; i++) {
		unsigned long long begin = now + 500 + (unsigned long long)rand() % 9000;
		unsigned long long end = begin + 100 + (unsigned long long)rand() % 12000;
		unsigned long long due = begin / PERIOD * PERIOD; // while it slept
		unsigned long long came = begin + (unsigned long long)rand() % 1500;

		if (came < end) {
			weight += late_tick_weight(came - due + PERIOD, PERIOD, came - begin);
			plain += came - due + PERIOD;
		} else {
			came = end;
		}
		weight += (end / PERIOD - came / PERIOD) * PERIOD;
		plain += (end / PERIOD - came / PERIOD) * PERIOD;
		ran += end - begin;
		now = end;
	}
	assert_true(weight > ran * 0.98 && weight < ran * 1.02);
	assert_true(plain > ran * 1.3); // so it matters
}

#define SECOND 1000000000ULL

TEST(knows_how_long_ago_the_clock_was_read)
{
	static const unsigned long long zeros[] = { 0, 5 * SECOND, -5 * SECOND };

	for EACH (zero, zeros) {
		struct clock_lag lag = { 0 };
		unsigned long long now = 100 * SECOND;

		assert_int_equal(0, clock_lag_ns(&lag, now, now + *zero)); // nothing is known yet
		assert_int_equal(300, clock_lag_ns(&lag, now + 1000, now + 700 + *zero));
		assert_int_equal(0, clock_lag_ns(&lag, now + 2000, now + 2000 + *zero));
		// Also in the window after, in which none was as short.
		now += CLOCK_LAG_WINDOW_NS + SECOND / 10;
		assert_int_equal(900, clock_lag_ns(&lag, now, now - 900 + *zero));
	}
}

TEST(follows_clocks_that_drift_apart)
{
	struct clock_lag lag = { 0 };
	unsigned long long now = 100 * SECOND, clock = now, step = SECOND / 100;

	for (unsigned int i = 0; i < 1000; i++) {
		unsigned long long found = clock_lag_ns(&lag, now, clock);

		assert_true(found <= 2 * CLOCK_LAG_WINDOW_NS / 10000 + step / 10000);
		now += step;
		clock += step - step / 10000;
	}
}

RUN_TESTS(cmocka_unit_test(weighs_grid_points_since_the_task_began),
	  cmocka_unit_test(late_ticks_weigh_what_tasks_run),
	  cmocka_unit_test(knows_how_long_ago_the_clock_was_read),
	  cmocka_unit_test(follows_clocks_that_drift_apart))
