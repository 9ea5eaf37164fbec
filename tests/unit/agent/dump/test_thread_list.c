// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/thread_list.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

static const struct {
	const char *what;
	const char *text;
	pid_t tid;
	uint32_t levels;
} statuses[] = {
	{ "our own namespace", "Name:\tx\nNSpid:\t1234\nVmPeak: 1 kB\n", 1234, 1 },
	{ "a container", "Name:\tx\nNSpid:\t1234\t17\nNSpgid:\t1\n", 17, 2 },
	{ "a container in a container", "Name:\tx\nNSpid:\t1234\t17\t1\n", 1, 3 },
	{ "an old kernel", "Name:\tx\nPid:\t1234\n", 0, 0 },
	{ "no number", "Name:\tx\nNSpid:\tabc\n", 0, 0 },
	{ "a number that is none of a thread", "Name:\tx\nNSpid:\t99999999999\n", 0, 1 },
	{ "a negative number", "Name:\tx\nNSpid:\t-4\n", 0, 1 },
	{ "a name that looks like it", "Name:\tNSpid:\t5\nNSpid:\t6\n", 6, 1 },
	{ "nothing", "", 0, 0 },
};

TEST(reads_the_pid_inside_a_namespace)
{
	for EACH (c, statuses) {
		uint32_t levels;

		EXPECT_EQ(c->tid, thread_status_namespace_tid(c->text, &levels), c->what);
		EXPECT_EQ(c->levels, levels, c->what);
	}
}

static const struct {
	const char *what;
	const char *text;
	uint64_t switches;
} counts[] = {
	{ "as the kernel writes it",
	  "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t30\n", 42 },
	{ "only one of them", "Name:\tx\nnonvoluntary_ctxt_switches:\t30\n", 30 },
	{ "neither", "Name:\tx\n", 0 },
	{ "nothing", "", 0 },
	{ "no number", "x\nvoluntary_ctxt_switches:\tmany\n", 0 },
};

TEST(adds_up_context_switches)
{
	for EACH (c, counts)
		EXPECT_EQ(c->switches, thread_status_switches(c->text), c->what);
}

static const struct {
	const char *what;
	const char *text;
	const char *cleaned;
} stacks[] = {
	{ "as the kernel writes it", "[<0>] futex_do_wait+0x30/0x90\n[<0>] do_futex+0x1/0x2\n",
	  "futex_do_wait+0x30\ndo_futex+0x1\n" },
	{ "a module's function", "[<0>] fuse_wait+0x3/0x4 [fuse]\n", "fuse_wait+0x3\n" },
	{ "an old kernel's end", "[<0>] a+0x1/0x2\n[<0>] 0xffffffffffffffff\n", "a+0x1\n" },
	{ "without a newline", "[<0>] a+0x1/0x2", "a+0x1\n" },
	{ "empty lines", "\n\n[<0>] a+0x1/0x2\n\n", "a+0x1\n" },
	{ "nothing", "", "" },
};

TEST(cleans_kernel_stacks)
{
	for EACH (c, stacks) {
		char text[256];

		snprintf(text, sizeof(text), "%s", c->text);
		kernel_stack_clean(text);
		EXPECT_STR(c->cleaned, text, c->what);
	}
}

static void *wait_for_ever(void *name)
{
	prctl(PR_SET_NAME, name);
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
	pthread_create(&thread, NULL, wait_for_ever, "one\033[1m");
	pthread_create(&thread, NULL, wait_for_ever, "two");
	for (;;)
		;
}

static bool is_settled(const struct thread_list *list)
{
	return list->count == 3 && list->threads[1].state == 'S' && list->threads[2].state == 'S' &&
	       list->threads[1].has_registers;
}

TEST(lists_threads_with_their_state)
{
	struct thread_list list = { 0 };
	struct proc proc;
	pid_t pid = start();

	assert_int_equal(0, proc_open(pid, &proc));
	for (int i = 0; i < 5000; i++) {
		thread_list_deinit(&list);
		EXPECT_EQ(0, thread_list_read(&proc, true, &list), "read");
		if (is_settled(&list))
			break;
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	EXPECT_EQ(3, list.count, "threads");
	EXPECT_EQ(pid, list.threads[0].tid, "sorted");
	EXPECT_EQ('R', list.threads[0].state, "the main thread runs");
	EXPECT_EQ(false, list.threads[0].has_registers, "so it has none to be read");
	EXPECT_STR("one?[1m", list.threads[1].name, "fit to show");
	EXPECT_EQ(SYS_pause, list.threads[2].registers.syscall, "in a call");
	assert_ptr_equal(&list.threads[2], thread_list_find(&list, list.threads[2].tid));
	assert_ptr_equal(&list.threads[1],
			 thread_list_find_in_namespace(&list, list.threads[1].namespace_tid));
	assert_null(thread_list_find(&list, 1));

	EXPECT_EQ(true, thread_has_slept(&proc, &list.threads[2]), "it sleeps");
	EXPECT_EQ(false, thread_has_slept(&proc, &list.threads[0]), "it runs");
	tgkill(pid, list.threads[2].tid, SIGURG); // ignored, but a handler would wake it
	thread_list_refresh(&proc, false, &list);
	EXPECT_EQ('S', list.threads[2].state, "still there");
	struct thread before = list.threads[2];
	tgkill(pid, before.tid, SIGSTOP);
	for (int i = 0; i < 5000 && list.threads[2].state != 'T'; i++)
		thread_list_refresh(&proc, false, &list);
	EXPECT_EQ('T', list.threads[2].state, "looked at again");
	EXPECT_EQ(false, thread_has_slept(&proc, &before), "it was woken");

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	thread_list_refresh(&proc, true, &list);
	EXPECT_EQ('X', list.threads[1].state, "it has exited");
	thread_list_deinit(&list);
	EXPECT_EQ(-ESRCH, thread_list_read(&proc, true, &list), "it has exited");
	proc_close(&proc);
}

RUN_TESTS(cmocka_unit_test(reads_the_pid_inside_a_namespace),
	  cmocka_unit_test(adds_up_context_switches), cmocka_unit_test(cleans_kernel_stacks),
	  cmocka_unit_test(lists_threads_with_their_state))
