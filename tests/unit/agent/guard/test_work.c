// SPDX-License-Identifier: Apache-2.0
// The clock is the test's: it shows how much CPU time the works have taken.
#include "agent/guard/work.h"

#include <errno.h>
#include <unistd.h>

#include "agent/process/process_memory.h"
#include "base/clock.h"
#include "tests/test.h"

static uint64_t now_ns;

static uint64_t test_clock(void)
{
	return now_ns;
}

struct fixture {
	struct event_log *events;
	struct work_pool pool;
	struct work_budget hostile, honest;
	struct event event;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	now_ns = NS_PER_SECOND;
	fixture->events = event_log_new();
	fixture->pool = (struct work_pool){ .process_ns = 100,
					    .total_ns = 250,
					    .share_ns = 10,
					    .events = fixture->events,
					    .cpu_ns = test_clock };
	fixture->hostile = (struct work_budget){ .pool = &fixture->pool, .pid = 4711 };
	fixture->honest = (struct work_budget){ .pool = &fixture->pool, .pid = 12 };
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	event_log_free(fixture->events);
	free(fixture);
	return 0;
}

// Returns whether it began.
static bool do_work(struct work_budget *budget, uint64_t takes_ns)
{
	struct work work;
	bool has_begun = work_begin(&work, budget, "testing");

	now_ns += has_begun ? takes_ns : 0;
	work_end(&work);
	return has_begun;
}

static void puts_off_what_is_over_budget(void **state)
{
	struct fixture *fixture = *state;

	assert_true(do_work(&fixture->hostile, 60));
	assert_true(do_work(&fixture->hostile, 60));
	assert_false(do_work(&fixture->hostile, 60));
	assert_false(do_work(&fixture->hostile, 60));
	assert_true(do_work(&fixture->honest, 60));
	assert_int_equal(1, fixture->pool.put_off);
	assert_true(event_log_next(fixture->events, &fixture->event));
	EXPECT_STR("processes", fixture->event.subject, "subject");
	assert_non_null(strstr(fixture->event.text, "process 4711"));
	assert_non_null(strstr(fixture->event.text, "testing"));
	assert_false(event_log_next(fixture->events, &fixture->event));
}

static void pays_a_debt_over_intervals(void **state)
{
	struct fixture *fixture = *state;

	assert_true(do_work(&fixture->hostile, 250));
	work_pool_renew(&fixture->pool);
	assert_false(do_work(&fixture->hostile, 1)); // 150 left to pay
	work_pool_renew(&fixture->pool);
	assert_true(do_work(&fixture->hostile, 1));
	assert_int_equal(1, fixture->pool.put_off);
}

static void reports_one_process_an_interval(void **state)
{
	struct fixture *fixture = *state;

	for (int i = 0; i < 3; i++) {
		do_work(&fixture->hostile, 200);
		do_work(&fixture->honest, 200);
		do_work(&fixture->hostile, 1);
		do_work(&fixture->honest, 1);
		assert_true(event_log_next(fixture->events, &fixture->event));
		assert_false(event_log_next(fixture->events, &fixture->event));
		work_pool_renew(&fixture->pool);
	}
	assert_int_equal(6, fixture->pool.put_off);
}

static void many_costly_processes_starve_nobody(void **state)
{
	struct fixture *fixture = *state;
	struct work_budget others[100];
	uint64_t began_ns = now_ns;

	for EACH (other, others) {
		*other = (struct work_budget){ .pool = &fixture->pool, .pid = 1000 };
		while (do_work(other, 5))
			;
	}
	// 250 for the first ones, a share for each of the others.
	assert_in_range(now_ns - began_ns, 250, 250 + 100 * 10 + 50);
	assert_true(do_work(&fixture->honest, 5));
}

static void one_payers_processes_leave_half(void **state)
{
	struct fixture *fixture = *state;
	struct work_budget others[10];

	for EACH (other, others) {
		*other = (struct work_budget){ .pool = &fixture->pool, .pid = 1000, .payer = 7 };
		while (do_work(other, 10))
			;
	}
	fixture->honest.payer = 8;
	for (int i = 0; i < 5; i++) // more than a share
		EXPECT_EQ(true, do_work(&fixture->honest, 5), "another payer's");
	fixture->hostile.payer = 7;
	EXPECT_EQ(true, do_work(&fixture->hostile, 10), "one more of the first payer's");
	EXPECT_EQ(false, do_work(&fixture->hostile, 10), "has a share only");
	work_pool_renew(&fixture->pool);
	EXPECT_EQ(true, do_work(&fixture->hostile, 20), "in the next interval");
	EXPECT_EQ(true, do_work(&fixture->hostile, 20), "it has its budget");
}

static void a_work_pays_for_itself_only(void **state)
{
	struct fixture *fixture = *state;
	struct work outer;

	assert_true(work_begin(&outer, &fixture->honest, "outer"));
	now_ns += 10;
	assert_true(do_work(&fixture->hostile, 70));
	now_ns += 10;
	work_end(&outer);
	assert_int_equal(70, fixture->hostile.spent_ns);
	assert_int_equal(20, fixture->honest.spent_ns);
	assert_int_equal(90, fixture->pool.spent_ns);
}

static void successors_take_over_what_was_spent(void **state)
{
	struct fixture *fixture = *state;

	do_work(&fixture->hostile, 100);
	work_budget_inherit(&fixture->honest, &fixture->hostile);
	assert_false(do_work(&fixture->honest, 1));
}

// As a walk that never ends by itself.
static void reads_end_with_the_budget(void **state)
{
	struct fixture *fixture = *state;
	uint64_t word = 1, copy = 0;
	uint32_t reads = 0;
	struct work work;

	assert_true(work_begin(&work, &fixture->hostile, "walking"));
	while (!process_memory_read(getpid(), (uint64_t)&word, &copy, sizeof(copy)) && ++reads)
		now_ns++;
	assert_in_range(reads, 90, 120);
	struct process_memory_read each = { .address = (uint64_t)&word, .bytes = &copy, .size = 8 };
	assert_int_equal(-EDQUOT, process_memory_read_each(getpid(), &each, 1));
	assert_true(work_is_spent());
	work_end(&work);
	assert_false(work_is_spent());
	assert_int_equal(1, fixture->pool.put_off);
	assert_int_equal(0, process_memory_read(getpid(), (uint64_t)&word, &copy, sizeof(copy)));
}

static void reads_end_even_if_they_cost_nothing(void **state)
{
	struct work work;
	uint32_t reads = 0;

	(void)state;
	assert_true(work_begin(&work, NULL, "walking"));
	while (work_may_read())
		reads++;
	work_end(&work);
	assert_int_equal(WORK_READS_MAX, reads);
}

static bool is_true(void *context)
{
	return *(bool *)context;
}

/* The agent stops: what it has is to be sent now. */
static void stops_work_at_the_end(void **state)
{
	struct fixture *fixture = *state;
	struct work work;
	bool is_over = false;
	uint32_t reads = 0;

	fixture->pool.is_over = is_true;
	fixture->pool.context = &is_over;
	assert_true(do_work(&fixture->honest, 1));
	assert_true(work_begin(&work, &fixture->honest, "walking"));
	assert_true(work_may_read());
	is_over = true;
	while (work_may_read())
		reads++;
	assert_in_range(reads, 0, 16);
	work_end(&work);
	assert_false(do_work(&fixture->hostile, 1));
	assert_int_equal(1, fixture->pool.put_off); // the one that was cut short
	assert_true(do_work(NULL, 1));
}

#define WORK_TEST(claim) cmocka_unit_test_setup_teardown(claim, set_up, tear_down)

RUN_TESTS(WORK_TEST(puts_off_what_is_over_budget), WORK_TEST(pays_a_debt_over_intervals),
	  WORK_TEST(reports_one_process_an_interval),
	  WORK_TEST(many_costly_processes_starve_nobody),
	  WORK_TEST(one_payers_processes_leave_half), WORK_TEST(a_work_pays_for_itself_only),
	  WORK_TEST(successors_take_over_what_was_spent), WORK_TEST(reads_end_with_the_budget),
	  WORK_TEST(reads_end_even_if_they_cost_nothing), WORK_TEST(stops_work_at_the_end))
