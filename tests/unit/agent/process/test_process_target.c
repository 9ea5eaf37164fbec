// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_target.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

static int check(pid_t pid, pid_t *ret_leader, struct error *err)
{
	struct proc proc;

	assert_int_equal(0, proc_open(pid, &proc));
	*ret_leader = process_target_leader(&proc);
	int rc = process_target_check(pid, &proc, err);

	proc_close(&proc);
	return rc;
}

TEST(accepts_running_process)
{
	struct error err = { 0 };
	pid_t leader;

	assert_int_equal(0, check(getpid(), &leader, &err));
	assert_int_equal(getpid(), leader);
}

TEST(refuses_exited_process)
{
	struct error err = { 0 };
	siginfo_t info;
	pid_t leader, pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(0, waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
	assert_int_equal(-ESRCH, check(pid, &leader, &err));
	assert_non_null(strstr(err.text, ") has exited; its parent "));
	waitpid(pid, NULL, 0);
}

TEST(refuses_kernel_thread)
{
	const struct proc proc = { -1,
				   -1,
				   { .name = "kthreadd", .state = 'S', .kernel_thread = true } };
	struct error err = { 0 };

	assert_int_equal(-EINVAL, process_target_check(2, &proc, &err));
	assert_non_null(strstr(err.text, "2 (kthreadd) is a thread of the kernel"));
}

static void *check_thread(void *ret_leader)
{
	struct error err = { 0 };

	check((pid_t)syscall(SYS_gettid), ret_leader, &err);
	return NULL;
}

TEST(knows_process_of_thread)
{
	pthread_t thread;
	pid_t leader = 0;

	assert_int_equal(0, pthread_create(&thread, NULL, check_thread, &leader));
	pthread_join(thread, NULL);
	assert_int_equal(getpid(), leader);
}

RUN_TESTS(cmocka_unit_test(accepts_running_process), cmocka_unit_test(refuses_exited_process),
	  cmocka_unit_test(refuses_kernel_thread), cmocka_unit_test(knows_process_of_thread))
