// SPDX-License-Identifier: Apache-2.0
// Pauses of real children. Each must go on afterwards as if nothing had been.
#include "agent/dump/process_pause.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/proc.h"
#include "tests/test.h"

enum {
	THREADS = 20,
	MANY_THREADS = 300, // to seize them all takes a while, in which much may happen
	WAIT_MS = 60000,
};

/* Shared with the child. */
struct shared {
	atomic_ulong turns; // of a thread that runs
	atomic_uint ready;
	atomic_uint signals;
};

static struct shared *shared;

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void *run(void *context)
{
	(void)context;
	shared->ready++;
	for (;;)
		shared->turns++;
	return NULL;
}

static void *block(void *context)
{
	(void)context;
	shared->ready++;
	for (;;)
		pause();
	return NULL;
}

/* Threads without end, beside many others; each counts for a tenth of a second. */
static void *count_for_a_while(void *context)
{
	for (int i = 0; i < 200; i++) {
		shared->ready++;
		usleep(500);
	}
	return context;
}

static void *start_others(void *context)
{
	pthread_t thread;

	for (int i = 0; i < MANY_THREADS; i++)
		pthread_create(&thread, NULL, block, context);
	for (;;)
		if (!pthread_create(&thread, NULL, count_for_a_while, context))
			pthread_detach(thread), usleep(500);
	return NULL;
}

static void take_signal(int number)
{
	(void)number;
	shared->signals++;
}

/* A child with @threads threads of @body and a main thread that runs, or exits. */
static pid_t start(void *(*body)(void *), int threads, bool main_exits)
{
	pthread_t thread;

	*shared = (struct shared){ 0 };
	pid_t pid = fork();
	if (pid) {
		for (int i = 0; shared->ready < (unsigned)threads + !main_exits && i < WAIT_MS; i++)
			sleep_ms(1);
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGRTMIN, take_signal);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread, NULL, body, NULL);
	if (main_exits)
		pthread_exit(NULL);
	run(NULL);
	_exit(1);
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static char state_of(pid_t pid)
{
	struct proc proc;

	if (proc_open(pid, &proc))
		return 'X';
	char state = proc.stat.state;
	proc_close(&proc);
	return state;
}

static bool wait_for_state(pid_t pid, const char *states)
{
	for (int i = 0; i < WAIT_MS; i++, sleep_ms(1))
		if (strchr(states, state_of(pid)))
			return true;
	return false;
}

static bool still_runs(void)
{
	unsigned long before = shared->turns;

	for (int i = 0; i < WAIT_MS; i++, sleep_ms(1))
		if (shared->turns != before)
			return true;
	return false;
}

static int set_up(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED;
}

TEST(stops_and_resumes_all_threads)
{
	pid_t pid = start(block, THREADS, false);
	struct process_pause *pause;
	struct error err;
	uint32_t count;
	bool expired;

	EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
	const struct paused_thread *threads = process_pause_threads(pause, &count);
	EXPECT_EQ(THREADS + 1, count, "all of them");
	for (uint32_t i = 0; i < count; i++) {
		EXPECT_EQ(true, threads[i].stopped, "stopped");
		assert_true(threads[i].registers.pc && threads[i].registers.thread_pointer);
		assert_ptr_equal(&threads[i], process_pause_find(pause, threads[i].tid));
	}
	EXPECT_EQ(SYSCALL_NONE, process_pause_find(pause, pid)->registers.syscall, "it ran");
	assert_null(process_pause_find(pause, 1));

	unsigned long turns = shared->turns;
	sleep_ms(20);
	EXPECT_EQ(turns, shared->turns, "nothing moves");
	uint64_t ns = process_pause_end(pause, &expired);
	assert_true(ns >= 20 * NS_PER_MS);
	EXPECT_EQ(false, expired, "it was ended in time");
	process_pause_free(pause);
	assert_true(still_runs());
	assert_true(wait_for_state(pid, "R"));
	stop(pid);
}

TEST(stops_threads_started_meanwhile)
{
	pid_t pid = start(start_others, 1, false);

	for (int i = 0; i < 100; i++) {
		struct process_pause *pause;
		struct error err;
		bool expired;

		EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
		unsigned before = shared->ready;
		sleep_ms(1);
		unsigned after = shared->ready;
		// On a busy machine not all stop in time.
		if (process_pause_end(pause, &expired) < PAUSE_STOP_NS)
			EXPECT_EQ(before, after, "no thread has got further");
		process_pause_free(pause);
	}
	stop(pid);
}

TEST(a_stopped_process_stays_stopped)
{
	pid_t pid = start(block, 2, false);
	struct process_pause *pause;
	struct error err;

	kill(pid, SIGSTOP);
	assert_true(wait_for_state(pid, "T"));
	EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
	EXPECT_EQ(true, process_pause_find(pause, pid)->stopped, "it stands still");
	process_pause_free(pause);
	assert_true(wait_for_state(pid, "T"));
	sleep_ms(20);
	EXPECT_EQ('T', state_of(pid), "still");
	kill(pid, SIGCONT);
	assert_true(still_runs());
	stop(pid);
}

static atomic_bool send_more;

/* Real-time signals, which are queued: as many are taken as were sent. */
static void *send_signals(void *pid)
{
	uintptr_t sent = 0;

	while (send_more)
		if (sigqueue((pid_t)(intptr_t)pid, SIGRTMIN, (union sigval){ 0 }) == 0)
			sent++;
	return (void *)sent;
}

TEST(keeps_signals_sent_during_a_pause)
{
	pid_t pid = start(block, MANY_THREADS, false);
	pthread_t sender;
	void *sent;

	send_more = true;
	pthread_create(&sender, NULL, send_signals, (void *)(intptr_t)pid);
	for (unsigned i = 0; i < 200; i++) {
		struct process_pause *pause;
		struct error err;

		EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
		process_pause_free(pause);
	}
	send_more = false;
	pthread_join(sender, &sent);
	for (int waited = 0; shared->signals < (uintptr_t)sent && waited < WAIT_MS; waited++)
		sleep_ms(1);
	assert_true(sent);
	EXPECT_EQ((uintptr_t)sent, shared->signals, "all were taken, once");
	stop(pid);
}

TEST(pauses_without_a_main_thread)
{
	pid_t pid = start(run, 2, true);
	struct process_pause *pause;
	struct error err;
	uint32_t count;

	assert_true(wait_for_state(pid, "Z"));
	EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
	process_pause_threads(pause, &count);
	EXPECT_EQ(2, count, "the others");
	process_pause_free(pause);
	assert_true(still_runs());
	stop(pid);
}

TEST(resumes_after_the_time_limit)
{
	pid_t pid = start(block, 2, false);
	struct process_pause *pause;
	struct error err;
	bool expired;

	EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
	sleep_ms(PAUSE_HELD_NS / NS_PER_MS + 100);
	assert_true(still_runs());
	process_pause_end(pause, &expired);
	EXPECT_EQ(true, expired, "and it says so");
	process_pause_free(pause);
	stop(pid);
}

/* Dies while it holds @pid. */
static void hold_and_die(pid_t pid)
{
	struct process_pause *pause;
	struct error err;

	if (process_pause_begin(pid, &pause, &err))
		_exit(1);
	kill(getpid(), SIGKILL);
}

TEST(resumes_when_the_tracer_is_killed)
{
	pid_t pid = start(block, 2, false);
	int status;
	pid_t tracer = fork();

	if (!tracer)
		hold_and_die(pid);
	waitpid(tracer, &status, 0);
	EXPECT_EQ(SIGKILL, WIFSIGNALED(status) ? WTERMSIG(status) : 0, "it was killed");
	assert_true(still_runs());
	stop(pid);
}

TEST(skips_a_thread_that_cannot_stop)
{
	struct process_pause *pause;
	struct error err;
	bool expired;

	// Who waits for a child of vfork() sleeps uninterruptibly.
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pid_t child = vfork();
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			block(NULL);
		}
		_exit(0);
	}
	assert_true(wait_for_state(pid, "D"));
	EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
	EXPECT_EQ(false, process_pause_find(pause, pid)->stopped, "it does not stop");
	uint64_t ns = process_pause_end(pause, &expired);
	process_pause_free(pause);
	assert_true(ns < PAUSE_STOP_NS);
	EXPECT_EQ('D', state_of(pid), "as before");
	stop(pid);
}

TEST(says_why_it_cannot_pause)
{
	pid_t pid = start(block, 1, false);
	struct process_pause *pause;
	struct error err;

	EXPECT_EQ(-ESRCH, process_pause_begin(1 << 22, &pause, &err), "no such process");

	pid_t tracer = fork();
	if (!tracer) {
		ptrace(PTRACE_SEIZE, pid, NULL, NULL);
		shared->signals = 1;
		for (;;)
			usleep(1000);
	}
	while (!shared->signals)
		sleep_ms(1);
	EXPECT_EQ(-EBUSY, process_pause_begin(pid, &pause, &err), "traced by another");
	assert_non_null(strstr(err.text, "being traced by process"));
	stop(tracer);
	assert_true(still_runs());
	stop(pid);
}

TEST(survives_an_exit_during_the_pause)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = start(block, 3, false);
		struct process_pause *pause;
		struct error err;

		EXPECT_EQ(0, process_pause_begin(pid, &pause, &err), "begin");
		kill(pid, SIGKILL);
		process_pause_free(pause);
		int status;
		EXPECT_EQ(pid, waitpid(pid, &status, 0), "its parent hears of it");
		EXPECT_EQ(SIGKILL, WIFSIGNALED(status) ? WTERMSIG(status) : 0, "its end");
	}
}

#define CASE(test) cmocka_unit_test_setup(test, set_up)

RUN_TESTS(CASE(stops_and_resumes_all_threads), CASE(stops_threads_started_meanwhile),
	  CASE(a_stopped_process_stays_stopped), CASE(keeps_signals_sent_during_a_pause),
	  CASE(pauses_without_a_main_thread), CASE(resumes_after_the_time_limit),
	  CASE(resumes_when_the_tracer_is_killed), CASE(skips_a_thread_that_cannot_stop),
	  CASE(says_why_it_cannot_pause), CASE(survives_an_exit_during_the_pause))
