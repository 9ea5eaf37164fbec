// SPDX-License-Identifier: Apache-2.0
// Which waits get a stack: all while they are few, and a bounded number whose weights add up to the
// whole when they are many.

#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

#include "bpf/switch/unwind_budget.h"

#define MS 1000000ULL
/* What a stack takes, in units of the budget. */
#define STACK_UNITS 4

/* Threads that wait in turn; each has its usual length, and now and then a wait out of the usual. */
struct sim_thread {
	uint64_t usual_ns;
	uint64_t expected_ns; // as the kernel side keeps it
	uint64_t next_ns;     // when its next wait begins
	double waited_ns, charged_ns;
};

struct outcome {
	uint64_t waits, chosen;
};

static uint64_t wait_of(const struct sim_thread *thread)
{
	uint64_t ns = thread->usual_ns / 2 + (uint64_t)random() % thread->usual_ns;

	return random() % 100 ? ns : ns * 20;
}

static void wait_once(struct unwind_budget *budget, struct sim_thread *thread,
		      struct outcome *outcome)
{
	uint64_t now = thread->next_ns, ns = wait_of(thread);
	uint32_t shift, weight = 0;

	budget_at(budget, now);
	shift = budget_shift(budget, thread->expected_ns, 0);
	if (!((uint32_t)random() & ((1U << shift) - 1))) {
		weight = 1U << shift;
		budget_spend_ns(budget, STACK_UNITS * BUDGET_UNIT_NS);
		outcome->chosen++;
	}
	outcome->waits++;
	thread->waited_ns += ns;
	thread->charged_ns += (double)ns * weight;
	thread->expected_ns += ns / 4 - thread->expected_ns / 4;
	thread->next_ns = now + ns;
}

static struct outcome simulate(struct sim_thread *threads, uint32_t count, uint64_t end_ns)
{
	struct unwind_budget budget = { 0 };
	struct outcome outcome = { 0 };

	for (;;) {
		struct sim_thread *first = threads;

		for (uint32_t i = 1; i < count; i++)
			if (threads[i].next_ns < first->next_ns)
				first = &threads[i];
		if (first->next_ns >= end_ns)
			return outcome;
		wait_once(&budget, first, &outcome);
	}
}

TEST(keeps_all_intervals_while_few)
{
	struct sim_thread threads[] = { { .usual_ns = 10 * MS }, { .usual_ns = 3 * MS } };
	struct outcome outcome = simulate(threads, 2, 5000 * MS);

	EXPECT_EQ(outcome.waits, outcome.chosen, "chosen");
	assert_true(threads[0].charged_ns == threads[0].waited_ns);
}

TEST(kept_intervals_are_bounded_and_stand_for_all)
{
	struct sim_thread threads[] = {
		{ .usual_ns = 2000 },     { .usual_ns = 2000 },    { .usual_ns = 30000 },
		{ .usual_ns = MS },       { .usual_ns = 50 * MS }, { .usual_ns = 700 * MS },
		{ .usual_ns = 400 * MS },
	};
	const uint64_t seconds = 10;
	struct outcome outcome;

	srandom(1);
	outcome = simulate(threads, 7, seconds * 1000 * MS);
	assert_true(outcome.waits > 5000000);
	uint64_t affordable = seconds * 1000 * MS / BUDGET_TICK_NS * BUDGET_UNITS / STACK_UNITS;
	uint64_t percent = 100 * outcome.chosen / affordable;

	if (percent < 60 || percent > 120)
		fail_msg("%llu %% of the budget was used", (unsigned long long)percent);
	for (uint32_t i = 0; i < 7; i++) {
		double ratio = threads[i].charged_ns / threads[i].waited_ns;
		// Some hundred samples of the short ones, and all of the long ones.
		double bound = threads[i].usual_ns < MS ? 0.25 : 0.1;

		if (ratio < 1 - bound || ratio > 1 + bound)
			fail_msg("waits of %llu ns: charged %.3f of the whole",
				 (unsigned long long)threads[i].usual_ns, ratio);
	}
}

TEST(the_budget_recovers_after_a_storm)
{
	struct sim_thread storm = { .usual_ns = 1500 }, calm = { .usual_ns = 5 * MS };
	struct unwind_budget budget = { 0 };
	struct outcome outcome = { 0 };

	while (storm.next_ns < 1000 * MS)
		wait_once(&budget, &storm, &outcome);
	assert_true(budget.quantum_ns > 0);
	calm.next_ns = storm.next_ns;
	while (calm.next_ns < 11000 * MS)
		wait_once(&budget, &calm, &outcome);
	EXPECT_EQ(0, budget.quantum_ns, "all waits are chosen again");
}

TEST(the_budget_recovers_while_idle)
{
	struct sim_thread storm = { .usual_ns = 1500 };
	struct unwind_budget budget = { 0 };
	struct outcome outcome = { 0 };

	while (storm.next_ns < 1000 * MS)
		wait_once(&budget, &storm, &outcome);
	uint64_t quantum_ns = budget.quantum_ns;

	assert_true(quantum_ns > 0);
	budget_at(&budget, storm.next_ns + 3 * BUDGET_TICK_NS * (1 << BUDGET_MEAN_SHIFT));
	assert_true(budget.quantum_ns > 0 && budget.quantum_ns <= quantum_ns / 2);
	budget_at(&budget, storm.next_ns + 20000 * MS);
	EXPECT_EQ(0, budget.quantum_ns, "all waits are chosen again");
}

/* Threads with cached stacks make @counts in each 20 ms, at a span of one slot. */
static void count_for(struct unwind_budget *budget, uint64_t *now, uint32_t counts, uint64_t for_ns)
{
	uint64_t end_ns = *now + for_ns;
	double due = 0;

	for (; *now < end_ns; *now += MS) {
		budget_at(budget, *now);
		due += counts / 20.0 / (1 << budget->span_shift);
		budget_count(budget, (uint32_t)due);
		due -= (uint32_t)due;
	}
}

TEST(coarsens_time_before_sampling_out)
{
	struct unwind_budget budget = { 0 };
	uint64_t now = 1;
	// More than there are units for by slots, fewer by spans of several slots.
	const uint32_t counts = 3 * BUDGET_UNITS;

	count_for(&budget, &now, counts, 10000 * MS);
	assert_true(budget.span_shift > 0);
	EXPECT_EQ(0, budget.quantum_ns, "all waits are chosen");
	assert_false(budget_is_for_all(&budget));
	count_for(&budget, &now, 1, 10000 * MS);
	EXPECT_EQ(0, budget.span_shift, "a span of one slot again");
}

/* At @rate switches a second. */
static struct unwind_budget after_counts(uint32_t counts, uint64_t rate)
{
	struct unwind_budget budget = { 0 };
	double due = 0;

	for (uint64_t now = 1; now < 5000 * MS; now += 1000 * MS / rate) {
		budget_at(&budget, now);
		due += counts * 50.0 / (double)rate / (1 << budget.span_shift);
		budget_count(&budget, (uint32_t)due);
		due -= (uint32_t)due;
	}
	return budget;
}

TEST(bounds_counts_of_cached_stacks)
{
	struct unwind_budget budget = after_counts(400 * BUDGET_UNITS, 1000);

	EXPECT_EQ(BUDGET_SPAN_SHIFT_LAST, budget.span_shift, "as coarse as can be");
	assert_true(budget.quantum_ns > 0);
	assert_true(budget_is_for_all(&budget));
}

TEST(time_is_coarse_only_to_keep_hits)
{
	static const struct {
		const char *what;
		uint32_t counts; // in 20 ms
		uint64_t rate;
		uint32_t span_shift;
		bool samples_hits;
	} rows[] = {
		{ "few sites", 20, 10000, 0, false },
		{ "some sites, 160 ms are enough", 3 * BUDGET_UNITS, 10000, BUDGET_SPAN_SHIFT_MAX,
		  false },
		{ "many sites at a moderate rate", 40 * BUDGET_UNITS, 10000, BUDGET_SPAN_SHIFT_LAST,
		  false },
		{ "as many at a high rate", 40 * BUDGET_UNITS, 50000, BUDGET_SPAN_SHIFT_MAX, true },
	};

	for EACH (row, rows) {
		struct unwind_budget budget = after_counts(row->counts, row->rate);

		EXPECT_EQ(row->span_shift, budget.span_shift, row->what);
		EXPECT_EQ(row->samples_hits, budget_is_for_all(&budget), row->what);
	}
}

TEST(time_gets_finer_when_a_storm_begins)
{
	struct unwind_budget budget = { .span_shift = BUDGET_SPAN_SHIFT_LAST };
	uint64_t now = 1;

	for (uint64_t ns = MS / 50; now < 5000 * MS; now += ns) { // 50,000 switches a second
		budget_at(&budget, now);
		budget.recent_counted = BUDGET_MEAN_UNITS / 3;
	}
	EXPECT_EQ(BUDGET_SPAN_SHIFT_MAX, budget.span_shift, "160 ms");
}

TEST(keeps_hits_at_moderate_rates)
{
	struct unwind_budget budget = { .span_shift = BUDGET_SPAN_SHIFT_LAST,
					.recent_counted = BUDGET_MEAN_UNITS };
	uint64_t now = 1;

	assert_false(budget_is_for_all(&budget));
	for (uint64_t ns = MS / 30; now < 100 * MS; now += ns)
		budget_at(&budget, now);
	budget.recent_counted = BUDGET_MEAN_UNITS;
	assert_true(budget_is_for_all(&budget)); // at 30,000 switches a second
}

/* Threads with Python frames switch @rate times a second, and @ns is what comparing takes. */
static bool samples_hits_out(uint64_t rate, uint64_t ns)
{
	struct unwind_budget budget = { 0 };

	for (uint64_t now = 1; now < 1000 * MS; now += 1000 * MS / rate) {
		budget_at(&budget, now);
		budget_compare_ns(&budget, ns);
	}
	return budget_is_for_compares(&budget);
}

TEST(compares_python_frames_within_the_budget)
{
	assert_false(samples_hits_out(2000, 1500)); // 0.3 % of the CPU
	assert_true(samples_hits_out(2000, 3000));  // 0.6 %
	assert_true(samples_hits_out(20000, 1500));
}

// Beside Python threads whose cache hits take nearly all, a thread that waits for long each time at another place.
TEST(long_waits_have_stacks_beside_many_hits)
{
	struct unwind_budget budget = { 0 };
	uint64_t waits = 0, captured = 0;

	for (uint64_t now = 1; now < 10000 * MS; now += MS / 2) {
		budget_at(&budget, now);
		budget_compare_ns(&budget, 1800);
		budget_count(&budget, now / (MS / 2) % 2);
		if (now / (MS / 2) % 10 && now / (MS / 2) % 100 != 1)
			continue;
		// Preemptions of 0.2 ms, which take more than there is room for, and waits of 50 ms.
		bool is_long = now / (MS / 2) % 100 == 1;
		uint32_t shift = budget_shift(&budget, is_long ? 50 * MS : MS / 5, 0);
		bool is_kept = !((uint32_t)random() & ((1U << shift) - 1));

		waits += is_long;
		captured += is_long && is_kept;
		if (is_kept)
			budget_spend_ns(&budget, 25000);
	}
	assert_int_equal(200, waits);
	EXPECT_EQ(waits, captured, "all long ones");
}

// Python's stacks take five times as long as others.
TEST(samples_out_more_when_unwinding_is_slow)
{
	const uint64_t taken_ns[] = { 3000, 15000 };
	uint64_t chosen[2] = { 0 }, ns = 10 * 1000, end_ns = 4000 * MS;

	for (int i = 0; i < 2; i++) {
		struct unwind_budget budget = { 0 };

		for (uint64_t now = 1; now < end_ns; now += ns) {
			uint32_t shift;

			budget_at(&budget, now);
			shift = budget_shift(&budget, ns, 0);
			if ((uint32_t)random() & ((1U << shift) - 1))
				continue;
			budget_spend_ns(&budget, taken_ns[i]);
			chosen[i]++;
		}
		// 0.5 % of the CPU is the budget; some of it may be left, or be overdrawn in the beginning.
		assert_in_range(chosen[i] * taken_ns[i], end_ns / 500, end_ns / 100);
	}
	assert_true(chosen[0] > 3 * chosen[1]);
}

TEST(does_not_charge_stolen_time)
{
	struct unwind_budget budget = { 0 };

	budget_at(&budget, 1);
	budget_spend_ns(&budget, 50 * MS);
	assert_true(budget.used < BUDGET_UNITS);
}

TEST(shedding_is_for_short_waits)
{
	static const struct {
		uint64_t expected_ns;
		uint32_t step, shift;
	} cases[] = {
		{ 0, 0, 0 },              // nothing is shed
		{ 100 * MS, 0, 0 },       //
		{ 0, 6, 6 },              // unknown
		{ MS, 6, 6 },             // a millisecond and less
		{ 3 * MS, 6, 5 },         //
		{ 10 * MS, 6, 3 },        //
		{ 100 * MS, 6, 0 },       // longer than 64 of those
		{ 100 * MS, 14, 8 },      // the last step
		{ 4294967295ULL, 14, 3 }, // the longest that is known
	};

	for EACH (c, cases)
		EXPECT_EQ(c->shift, budget_shed_shift(c->step, c->expected_ns), "shift");
}

RUN_TESTS(cmocka_unit_test(shedding_is_for_short_waits),
	  cmocka_unit_test(samples_out_more_when_unwinding_is_slow),
	  cmocka_unit_test(long_waits_have_stacks_beside_many_hits),
	  cmocka_unit_test(does_not_charge_stolen_time),
	  cmocka_unit_test(coarsens_time_before_sampling_out),
	  cmocka_unit_test(bounds_counts_of_cached_stacks),
	  cmocka_unit_test(time_is_coarse_only_to_keep_hits),
	  cmocka_unit_test(time_gets_finer_when_a_storm_begins),
	  cmocka_unit_test(keeps_hits_at_moderate_rates),
	  cmocka_unit_test(compares_python_frames_within_the_budget),
	  cmocka_unit_test(keeps_all_intervals_while_few),
	  cmocka_unit_test(kept_intervals_are_bounded_and_stand_for_all),
	  cmocka_unit_test(the_budget_recovers_after_a_storm),
	  cmocka_unit_test(the_budget_recovers_while_idle))
