// SPDX-License-Identifier: Apache-2.0
// The registers that the kernel has saved of a blocked child must be those that ptrace reads.
#include "agent/dump/blocked_registers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/dump/process_pause.h"
#include "tests/test.h"

enum { THREADS = 5, WAIT_MS = 5000 };

static void *wait_for_ever(void *context)
{
	(void)context;
	for (;;)
		pause();
	return NULL;
}

static pid_t start(void)
{
	pthread_t thread;
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < THREADS; i++)
		pthread_create(&thread, NULL, wait_for_ever, NULL);
	wait_for_ever(NULL);
	_exit(1);
}

static void expect_equal(const struct thread_registers *saved,
			 const struct thread_registers *expected)
{
	assert_non_null(saved);
	// What the call has returned so far is no register of its caller yet.
	for (int i = 1; i < UNWIND_REGISTERS; i++)
		EXPECT_EQ(expected->dwarf[i], saved->dwarf[i], "a register");
	EXPECT_EQ(expected->pc, saved->pc, "pc");
	EXPECT_EQ(expected->thread_pointer, saved->thread_pointer, "thread pointer");
	EXPECT_EQ(expected->syscall, saved->syscall, "system call");
	EXPECT_EQ(false, saved->partial, "all are there");
	EXPECT_EQ(false, saved->compat, "64-bit code");
}

/* All have come to their call when ptrace says so of each. */
static struct process_pause *pause_all(pid_t pid)
{
	for (int i = 0; i < WAIT_MS; i++) {
		struct process_pause *pause;
		struct error err;
		uint32_t count, blocked = 0;

		assert_int_equal(0, process_pause_begin(pid, &pause, &err));
		const struct paused_thread *threads = process_pause_threads(pause, &count);
		for (uint32_t t = 0; t < count; t++)
			blocked += threads[t].registers.syscall >= 0;
		if (blocked == THREADS)
			return pause;
		process_pause_free(pause);
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	fail_msg("the child does not block");
	return NULL;
}

TEST(reads_registers_of_blocked_threads)
{
	struct blocked_registers saved;
	pid_t pid = start();
	struct process_pause *pause = pause_all(pid);
	uint32_t count;
	const struct paused_thread *threads = process_pause_threads(pause, &count);
	int rc = blocked_registers_read(pid, &saved);

	if (rc == -EPERM || rc == -EACCES) {
		kill(pid, SIGKILL);
		SKIP("BPF programs need root");
	}
	EXPECT_EQ(0, rc, "read");
	EXPECT_EQ(THREADS, saved.count, "its threads and no others");
	for (uint32_t i = 0; i < count; i++)
		expect_equal(blocked_registers_find(&saved, &threads[i].registers),
			     &threads[i].registers);
	struct thread_registers moved = threads[0].registers;
	moved.pc++;
	assert_null(blocked_registers_find(&saved, &moved));
	blocked_registers_deinit(&saved);
	process_pause_free(pause);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(refuses_a_missing_process)
{
	struct blocked_registers saved = { 0 };

	assert_true(blocked_registers_read(1 << 22, &saved) < 0 || saved.count == 0);
	blocked_registers_deinit(&saved);
}

RUN_TESTS(cmocka_unit_test(reads_registers_of_blocked_threads),
	  cmocka_unit_test(refuses_a_missing_process))
