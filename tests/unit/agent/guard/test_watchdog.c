// SPDX-License-Identifier: Apache-2.0
#include "agent/guard/watchdog.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/test.h"

enum { TICK_MS = 1000 };

static struct watchdog_view view;

static void tick(uint64_t turn, uint64_t waited_ns, bool has_signal)
{
	const struct watchdog_tick now = { turn, waited_ns, has_signal };

	watchdog_view_tick(&view, &now, TICK_MS);
}

TEST(counts_ticks_of_one_turn)
{
	view = (struct watchdog_view){ 0 };
	for (int i = 0; i <= 5; i++)
		tick(3, 0, false);
	assert_int_equal(5 * TICK_MS, view.busy_ms);
	tick(5, 0, false); // the next one
	assert_int_equal(0, view.busy_ms);
	tick(5, 0, false);
	tick(6, 0, false); // it waits for events
	tick(6, 0, false);
	assert_int_equal(0, view.busy_ms);
}

TEST(waiting_for_a_cpu_does_not_count)
{
	view = (struct watchdog_view){ 0 };
	tick(1, 5 * NS_PER_SECOND, false);
	tick(1, 5 * NS_PER_SECOND + 900 * NS_PER_MS, false);
	assert_int_equal(100, view.busy_ms);
	// What it waited is known when it runs again.
	tick(1, 5 * NS_PER_SECOND + 900 * NS_PER_MS, false);
	tick(1, 7 * NS_PER_SECOND + 800 * NS_PER_MS, false);
	assert_int_equal(200, view.busy_ms);
	tick(1, 20 * NS_PER_SECOND, false);
	assert_int_equal(0, view.busy_ms);
}

TEST(counts_how_long_a_signal_waits)
{
	view = (struct watchdog_view){ 0 };
	tick(1, 0, false);
	tick(1, 0, false);
	tick(1, 0, true);
	tick(1, 0, true);
	assert_int_equal(2 * TICK_MS, view.signal_ms);
	tick(3, 0, true); // that turn may take it
	assert_int_equal(0, view.signal_ms);
}

TEST(a_signal_of_a_starved_process_waits)
{
	view = (struct watchdog_view){ 0 };
	for (uint64_t i = 0; i <= 10; i++)
		tick(1, i * 950 * NS_PER_MS, true);
	assert_int_equal(10 * 50, view.signal_ms);
}

// Runs @child, which shall be ended, and returns its log.
static const char *log_of(void (*child)(void), int *ret_status)
{
	static char log[4096];
	int ends[2];

	assert_int_equal(0, pipe(ends));
	pid_t pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		child();
		_exit(99);
	}
	close(ends[1]);
	size_t size = 0;
	for (ssize_t got; (got = read(ends[0], log + size, sizeof(log) - 1 - size)) > 0;)
		size += (size_t)got;
	log[size] = '\0';
	close(ends[0]);
	assert_int_equal(pid, waitpid(pid, ret_status, 0));
	return log;
}

static void start_quick(void)
{
	const struct watchdog_options options = {
		.subject = "test", .advice = "try again", .turn_ms_max = 50, .tick_ms = 10
	};
	struct error err;

	if (watchdog_start(&options, &err))
		_exit(98);
}

static void hang(void)
{
	start_quick();
	watchdog_begin_turn("exporting");
	struct watchdog_stage before = watchdog_enter("reading JIT symbols", 12);
	watchdog_leave(before);
	watchdog_enter("reading Python thread states", 4711);
	for (;;)
		;
}

TEST(ends_a_process_that_hangs)
{
	int status;
	const char *log = log_of(hang, &status);

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
	assert_non_null(
		strstr(log, "test: ended by its watchdog: stuck in reading Python thread states of "
			    "process 4711 ("));
	assert_non_null(strstr(log, "limit 0.1 s); try again\n"));
}

static void hang_when_told_to_end(void)
{
	const struct watchdog_options options = {
		.subject = "test", .advice = "try again", .turn_ms_max = 1 << 30, .tick_ms = 10
	};
	struct error err;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (watchdog_start(&options, &err))
		_exit(98);
	watchdog_begin_turn("exporting");
	kill(getpid(), SIGTERM);
	for (;;)
		pause();
}

TEST(ends_a_busy_process_at_a_signal)
{
	int status;
	const char *log = log_of(hang_when_told_to_end, &status);

	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
	assert_non_null(strstr(log, "test: ended by its watchdog after a signal: still busy "
				    "with exporting ("));
}

static void work_in_turns(void)
{
	start_quick();
	for (int i = 0; i < 20; i++) {
		watchdog_begin_turn("exporting");
		watchdog_begin_turn("exporting"); // the next one
		usleep(10 * 1000);
		watchdog_end_turn();
	}
	usleep(100 * 1000); // waits for events
	watchdog_stop();
	_exit(0);
}

TEST(leaves_a_process_with_many_turns)
{
	int status;

	log_of(work_in_turns, &status);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(stages_without_a_watchdog_are_ignored)
{
	struct watchdog_stage before = watchdog_enter("exporting", 12);

	watchdog_leave(before);
	watchdog_begin_turn("exporting");
	watchdog_end_turn();
	watchdog_stop();
	assert_null(before.name);
}

RUN_TESTS(cmocka_unit_test(counts_ticks_of_one_turn),
	  cmocka_unit_test(waiting_for_a_cpu_does_not_count),
	  cmocka_unit_test(counts_how_long_a_signal_waits),
	  cmocka_unit_test(a_signal_of_a_starved_process_waits),
	  cmocka_unit_test(ends_a_process_that_hangs),
	  cmocka_unit_test(ends_a_busy_process_at_a_signal),
	  cmocka_unit_test(leaves_a_process_with_many_turns),
	  cmocka_unit_test(stages_without_a_watchdog_are_ignored))
