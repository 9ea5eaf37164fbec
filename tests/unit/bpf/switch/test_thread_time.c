// SPDX-License-Identifier: Apache-2.0
#include "bpf/switch/thread_time.h"

#include <pthread.h>

#include "tests/test.h"

static __u64 sum_of(const struct thread_interval *interval)
{
	return interval->ns[THREAD_RUNNING] + interval->ns[THREAD_RUN_QUEUE] +
	       interval->ns[THREAD_BLOCKED];
}

TEST(splits_an_interval_by_thread_state)
{
	static const struct {
		const char *what;
		__u64 since_ns, now_ns, running_since_ns, delay_ns;
		__u32 left_as;
		__u64 running_ns, waiting_ns, blocked_ns;
	} rows[] = {
		{ "blocked, woken, ran", 100, 1000, 900, 50, THREAD_BLOCKED, 100, 50, 750 },
		{ "preempted: it only waits", 100, 1000, 900, 50, THREAD_RUN_QUEUE, 100, 800, 0 },
		{ "swept while it runs", 950, 1000, 900, 0, THREAD_BLOCKED, 50, 0, 0 },
		{ "a clock that is ahead", 100, 1000, 900, 801, THREAD_BLOCKED, 100, 800, 0 },
		{ "nothing yet", 1000, 1000, 900, 0, THREAD_BLOCKED, 0, 0, 0 },
	};

	for EACH (row, rows) {
		struct thread_interval interval =
			thread_interval_of(row->since_ns, row->now_ns, row->running_since_ns,
					   row->delay_ns, row->left_as);

		EXPECT_EQ(row->running_ns, interval.ns[THREAD_RUNNING], row->what);
		EXPECT_EQ(row->waiting_ns, interval.ns[THREAD_RUN_QUEUE], row->what);
		EXPECT_EQ(row->blocked_ns, interval.ns[THREAD_BLOCKED], row->what);
	}
}

TEST(running_time_equals_the_kernels_count)
{
	static const struct {
		const char *what;
		struct thread_interval interval;
		__u64 ahead_ns, exec_ns;
		__u64 running_ns, waiting_ns, blocked_ns, left_ns;
	} rows[] = {
		{ "the same", { .ns = { 100, 10, 50 } }, 0, 100, 100, 10, 50, 0 },
		{ "CPU time was stolen", { .ns = { 100, 10, 50 } }, 0, 70, 70, 40, 50, 0 },
		{ "from the wake-up on", { .ns = { 100, 10, 50 } }, 0, 103, 103, 10, 47, 0 },
		{ "the wait for a CPU, too", { .ns = { 100, 10, 2 } }, 0, 105, 105, 7, 0, 0 },
		{ "more than there is", { .ns = { 100, 1, 2 } }, 0, 200, 103, 0, 0, 0 },
		{ "swept in part", { .ns = { 100, 10, 50 } }, 900, 1000, 100, 10, 50, 0 },
		{ "swept, and stolen", { .ns = { 100, 10, 50 } }, 900, 950, 50, 60, 50, 0 },
		{ "swept too much", { .ns = { 100, 10, 50 } }, 900, 850, 0, 110, 50, 50 },
	};

	for EACH (row, rows) {
		struct thread_interval interval = row->interval;
		__u64 left_ns = thread_interval_settle(&interval, row->ahead_ns, row->exec_ns);

		EXPECT_EQ(row->left_ns, left_ns, row->what);
		EXPECT_EQ(row->running_ns, interval.ns[THREAD_RUNNING], row->what);
		EXPECT_EQ(row->waiting_ns, interval.ns[THREAD_RUN_QUEUE], row->what);
		EXPECT_EQ(row->blocked_ns, interval.ns[THREAD_BLOCKED], row->what);
		EXPECT_EQ(sum_of(&row->interval), sum_of(&interval), row->what);
	}
}

/* One of two that charge a thread's time and report it. */
struct teller {
	struct thread_time *time;
	__u64 reported_ns;
	_Bool switches;
};

enum { TURNS = 5000000 };
static pthread_barrier_t both;

static void *report(void *context)
{
	struct teller *teller = context;

	pthread_barrier_wait(&both);
	for (int i = 0; i < TURNS; i++) {
		if (teller->switches)
			teller->time->switched_ns[THREAD_BLOCKED]++;
		else
			teller->time->swept_ns[THREAD_BLOCKED]++;
		teller->reported_ns += thread_time_report(teller->time, THREAD_BLOCKED);
	}
	return NULL;
}

TEST(concurrent_reports_count_time_once)
{
	struct thread_time time = { 0 };
	struct teller switches = { &time, 0, 1 }, sweeps = { &time, 0, 0 };
	pthread_t thread;

	pthread_barrier_init(&both, NULL, 2);
	assert_int_equal(0, pthread_create(&thread, NULL, report, &sweeps));
	report(&switches);
	pthread_join(thread, NULL);
	sweeps.reported_ns +=
		thread_time_report(&time, THREAD_BLOCKED); // what the last one could not
	EXPECT_EQ(2 * TURNS, switches.reported_ns + sweeps.reported_ns, "by both");
	EXPECT_EQ(0, thread_time_report(&time, THREAD_BLOCKED), "nothing is left");
}

RUN_TESTS(cmocka_unit_test(concurrent_reports_count_time_once),
	  cmocka_unit_test(splits_an_interval_by_thread_state),
	  cmocka_unit_test(running_time_equals_the_kernels_count))
