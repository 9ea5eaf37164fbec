// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_family.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

/** A child that forks one of its own and waits. */
static pid_t fork_two(pid_t *ret_grandchild)
{
	int ends[2];

	assert_int_equal(0, pipe(ends));
	pid_t child = fork();
	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild && write(ends[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(sizeof(*ret_grandchild),
			 read(ends[0], ret_grandchild, sizeof(*ret_grandchild)));
	close(ends[0]);
	close(ends[1]);
	return child;
}

TEST(a_family_has_all_generations)
{
	_cleanup_(process_family_deinit) struct process_family family = { 0 };
	_cleanup_(process_family_deinit) struct process_family below = { 0 };
	pid_t grandchild, child = fork_two(&grandchild);

	assert_int_equal(0, process_family_read(getpid(), &family));
	assert_int_equal(0, process_family_read(child, &below));
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(3, family.count, "three generations");
	EXPECT_EQ(true, process_family_has(&family, getpid()), "itself");
	EXPECT_EQ(true, process_family_has(&family, child), "a child");
	EXPECT_EQ(true, process_family_has(&family, grandchild), "a grandchild");
	EXPECT_EQ(false, process_family_has(&family, getppid()), "its parent");
	EXPECT_EQ(2, below.count, "below the child");
	EXPECT_EQ(false, process_family_has(&below, getpid()), "not its parent");
}

/** A child that waits, with a pid below its parent's, as after the numbers have wrapped around; 0: not allowed here. */
static pid_t fork_below(void)
{
	for (pid_t pid = getpid() - 1; pid > 1; pid--) {
		struct clone_args arguments = { .exit_signal = SIGCHLD,
						.set_tid = (uintptr_t)&pid,
						.set_tid_size = 1 };
		long child = syscall(SYS_clone3, &arguments, sizeof(arguments));

		if (child == 0) {
			pause();
			_exit(0);
		}
		if (child > 0)
			return (pid_t)child;
		if (errno != EEXIST)
			return 0;
	}
	return 0;
}

TEST(rejects_parent_with_higher_pid)
{
	_cleanup_(process_family_deinit) struct process_family family = { 0 };
	pid_t child = fork_below();

	if (!child)
		SKIP("needs CAP_CHECKPOINT_RESTORE");
	assert_int_equal(0, process_family_read(child, &family));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(1, family.count, "itself");
	EXPECT_EQ(false, process_family_has(&family, getpid()), "its parent");
}

TEST(a_process_that_has_gone_has_no_family)
{
	_cleanup_(process_family_deinit) struct process_family family = { 0 };
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	assert_int_equal(0, process_family_read(child, &family));
	EXPECT_EQ(0, family.count, "nobody");
	EXPECT_EQ(false, process_family_has(&family, child), "not even itself");
}

RUN_TESTS(cmocka_unit_test(a_family_has_all_generations),
	  cmocka_unit_test(rejects_parent_with_higher_pid),
	  cmocka_unit_test(a_process_that_has_gone_has_no_family))
