// SPDX-License-Identifier: Apache-2.0
// All time of threads on the running kernel is accounted for: states add up to the time that passed. Needs root
// and BTF.

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "tests/unit/agent/event_texts.h"
#include "tests/unit/agent/sources/switches_fixture.h"

/* Sleeps and works in turns, for @ns. */
static void alternate(uint64_t ns)
{
	for (uint64_t end_ns = clock_monotonic_ns() + ns; clock_monotonic_ns() < end_ns;) {
		uint64_t work_ns = clock_monotonic_ns() + 500000;

		sleep_ns(500000);
		while (clock_monotonic_ns() < work_ns)
			;
	}
}

static void *run_thread(void *seconds)
{
	prctl(PR_SET_NAME, "alternates");
	alternate(*(double *)seconds * NS_PER_SECOND);
	return NULL;
}

static void expect_all_time_is_told(bool raw_tracepoints)
{
	struct fixture fixture = open_switches(raw_tracepoints);
	struct counted counted = { .pid = getpid() };
	uint64_t begin_ns, end_ns;

	begin_ns = drain(&fixture, &counted);
	memset(counted.ns, 0, sizeof(counted.ns));
	alternate(300 * NS_PER_MS);
	sleep_ns(100 * NS_PER_MS);
	end_ns = drain(&fixture, &counted);
	expect_about(end_ns - begin_ns, sum(&counted), 2, "running + waiting + blocked");
	assert_true(counted.ns[SAMPLE_KIND_BLOCKED] > 100 * NS_PER_MS);
	assert_true(counted.ns[SAMPLE_KIND_RUNNING] > NS_PER_MS);
	close_switches(&fixture);
}

TEST(accounts_for_all_thread_time)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_all_time_is_told(false);
}

TEST(raw_tracepoints_account_for_all_time)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_all_time_is_told(true);
}

TEST(accounts_for_exited_threads)
{
	enum { THREADS = 4 };
	const double seconds = 0.3;
	pthread_t threads[THREADS];
	struct counted counted = { .pid = getpid(), .thread_name = "alternates" };

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	uint64_t begin_ns = clock_monotonic_ns();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_thread, (void *)&seconds);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	uint64_t end_ns = clock_monotonic_ns();
	drain(&fixture, &counted);
	// Each lives a little longer than it works.
	assert_true(sum(&counted) >= THREADS * seconds * NS_PER_SECOND);
	assert_true(sum(&counted) <= THREADS * (end_ns - begin_ns));
	close_switches(&fixture);
}

TEST(reports_off_cpu_time_while_blocked)
{
	struct counted counted = { 0 };
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	child = fork(); // blocks before the programs are attached
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test fail
		pause();
		_exit(0);
	}
	sleep_ns(50 * NS_PER_MS);
	counted.pid = child;
	struct fixture fixture = open_switches(false);
	fail_on_event(fixture.events);
	uint64_t begin_ns = drain(&fixture, &counted);
	memset(counted.ns, 0, sizeof(counted.ns));
	counted.with_user_stack_ns = 0;
	sleep_ns(200 * NS_PER_MS);
	uint64_t elapsed_ns = drain(&fixture, &counted) - begin_ns;
	expect_about(elapsed_ns, counted.ns[SAMPLE_KIND_BLOCKED], 10, "blocked");
	expect_about(elapsed_ns, counted.ns[SAMPLE_KIND_OFF_CPU], 10, "blocked, with a stack");
	// A pass over sleeping threads may leave some to the next pass.
	for (int i = 0; i < 100 && !counted.with_user_stack_ns; i++) {
		sleep_ns(20 * NS_PER_MS);
		drain(&fixture, &counted);
	}
	assert_true(counted.with_user_stack_ns > 0);
	// Killed, it runs once more.
	sleep_ns(100 * NS_PER_MS);
	end_child(child);
	elapsed_ns = clock_monotonic_ns() - begin_ns;
	// Its parent is notified before its last context switch, after which all is counted.
	for (int i = 0; i < 100 && sum(&counted) < 0.9 * elapsed_ns; i++) {
		sleep_ns(10 * NS_PER_MS);
		drain(&fixture, &counted);
	}
	expect_about(elapsed_ns, sum(&counted), 10, "all of it");
	close_switches(&fixture);
}

/* Two processes on one CPU that hand a byte to and fro until the other end is closed. */
static void play_ping_pong(int in, int out)
{
	char byte = 0;

	while (write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1)
		;
	_exit(0);
}

static pid_t start_ping_pong(void)
{
	cpu_set_t one;
	int to[2], fro[2];
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "ping-pong");
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (pipe(to) || pipe(fro))
		_exit(1);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		play_ping_pong(to[0], fro[1]);
	}
	play_ping_pong(fro[0], to[1]);
	return 0;
}

static double sampled_share(struct fixture *fixture, uint32_t pid)
{
	struct counted counted = { .pid = pid };
	double blocked, sampled;

	drain(fixture, &(struct counted){ 0 });
	sleep_ns(700 * NS_PER_MS);
	drain(fixture, &counted);
	blocked = off_cpu_total(&counted);
	sampled = counted.ns[SAMPLE_KIND_OFF_CPU] + counted.ns[SAMPLE_KIND_SCHED_DELAY];
	print_message("sampled %.3f of %.1f ms\n", sampled / blocked, blocked / 1e6);
	return sampled / blocked;
}

/*
 * One off-CPU interval in 16 is unwound, with its weight: they add up to the totals, which are exact. On a loaded
 * machine a few long run-queue latencies are much of the time, so one export interval of several must match.
 */
TEST(sampled_off_cpu_time_matches_totals)
{
	enum { ATTEMPTS = 10 };
	double share = 0;
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	switches_set_step(fixture.switches, 2);
	child = start_ping_pong();
	for (int i = 0; i < ATTEMPTS && (share < 0.8 || share > 1.25); i++)
		share = sampled_share(&fixture, child);
	end_child(child);
	assert_true(share >= 0.8 && share <= 1.25);
	close_switches(&fixture);
}

/* Blocks a thousand times a second. */
static pid_t start_napping(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		sleep_ns(NS_PER_MS);
}

static uint64_t with_stacks(const struct counted *counted)
{
	return counted->ns[SAMPLE_KIND_OFF_CPU] + counted->ns[SAMPLE_KIND_SCHED_DELAY] -
	       counted->without_stack_ns;
}

/* On a busy machine an off-CPU interval may last for some export intervals. */
static void expect_intervals(struct fixture *fixture, pid_t pid, bool has_stacks, const char *what)
{
	enum { ATTEMPTS = 20 };

	for (int i = 0; i < ATTEMPTS; i++) {
		struct counted counted = { .pid = pid };

		sleep_ns(100 * NS_PER_MS);
		drain(fixture, &counted);
		if ((with_stacks(&counted) != 0) != has_stacks || sum(&counted) <= 50 * NS_PER_MS)
			continue;
		if (!has_stacks)
			expect_about(off_cpu_total(&counted), counted.without_stack_ns, 1,
				     "without a stack");
		return;
	}
	fail_msg("%s: in none of %d windows", what, ATTEMPTS);
}

TEST(a_process_without_stacks_keeps_totals)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	pid_t child = start_napping(), other = start_napping();

	EXPECT_EQ(0, switches_set_process(fixture.switches, child, false), "off");
	EXPECT_EQ(-EEXIST, switches_set_process(fixture.switches, child, false), "twice");
	EXPECT_EQ(-ENOENT, switches_set_process(fixture.switches, other, true), "it was not off");
	expect_intervals(&fixture, child, false, "totals without stacks");
	expect_intervals(&fixture, other, true, "another process");
	EXPECT_EQ(0, switches_set_process(fixture.switches, child, true), "on again");
	expect_intervals(&fixture, child, true, "stacks again");
	kill(child, SIGKILL);
	kill(other, SIGKILL);
	waitpid(child, NULL, 0);
	waitpid(other, NULL, 0);
	close_switches(&fixture);
}

TEST(totals_cover_no_slot_twice)
{
	struct counted first = { .pid = getpid(), .slots_of = SAMPLE_KIND_RUNNING }, second = first;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	alternate(100 * NS_PER_MS);
	drain(&fixture, &first);
	alternate(100 * NS_PER_MS);
	drain(&fixture, &second);
	EXPECT_EQ(first.last_slot + 1, second.first_slot, "the next begins where the one ended");
	assert_true(second.last_slot >= second.first_slot + 3);
	close_switches(&fixture);
}

TEST(off_cpu_time_covers_no_slot_twice)
{
	enum { WINDOWS = 4 };
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	sleep_ns(50 * NS_PER_MS);
	struct fixture fixture = open_switches(false);
	for (uint64_t i = 0, before = 0; i < WINDOWS; i++) {
		struct counted counted = { .pid = child, .slots_of = SAMPLE_KIND_OFF_CPU };

		sleep_ns(100 * NS_PER_MS);
		drain(&fixture, &counted);
		if (before)
			EXPECT_EQ(before + 1, counted.first_slot,
				  "it begins where the one before ended");
		assert_true(counted.last_slot >= counted.first_slot + 3);
		before = counted.last_slot;
	}
	end_child(child);
	close_switches(&fixture);
}

TEST(accounts_for_nothing_while_stopped)
{
	struct counted counted = { .pid = getpid() };
	uint64_t begin_ns, end_ns;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	alternate(50 * NS_PER_MS);
	EXPECT_EQ(0, switches_set_running(fixture.switches, false), "pause");
	drain(&fixture, &counted);
	assert_true(sum(&counted) >= 50 * NS_PER_MS); // up to the pause
	alternate(400 * NS_PER_MS);
	memset(counted.ns, 0, sizeof(counted.ns));
	begin_ns = clock_monotonic_ns();
	EXPECT_EQ(0, switches_set_running(fixture.switches, true), "go on");
	alternate(200 * NS_PER_MS);
	sleep_ns(100 * NS_PER_MS);
	end_ns = drain(&fixture, &counted);
	assert_true(sum(&counted) >= 300 * NS_PER_MS && sum(&counted) <= end_ns - begin_ns);
	assert_true(counted.ns[SAMPLE_KIND_OFF_CPU] >= 100 * NS_PER_MS);
	close_switches(&fixture);
}
RUN_TESTS(cmocka_unit_test(accounts_for_nothing_while_stopped),
	  cmocka_unit_test(totals_cover_no_slot_twice),
	  cmocka_unit_test(off_cpu_time_covers_no_slot_twice),
	  cmocka_unit_test(sampled_off_cpu_time_matches_totals),
	  cmocka_unit_test(a_process_without_stacks_keeps_totals),
	  cmocka_unit_test(accounts_for_all_thread_time),
	  cmocka_unit_test(raw_tracepoints_account_for_all_time),
	  cmocka_unit_test(accounts_for_exited_threads),
	  cmocka_unit_test(reports_off_cpu_time_while_blocked))
