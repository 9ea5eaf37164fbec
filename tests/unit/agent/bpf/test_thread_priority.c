// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/thread_priority.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/test.h"

static int nice_of_this_thread(void)
{
	return getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
}

static void *read_nice(void *context)
{
	*(int *)context = nice_of_this_thread();
	return NULL;
}

static int nice_of_a_new_thread(void)
{
	pthread_t thread;
	int nice_value = 99;

	EXPECT_EQ(0, pthread_create(&thread, NULL, read_nice, &nice_value), "a thread");
	pthread_join(thread, NULL);
	return nice_value;
}

static void *raise_and_look(void *context)
{
	int *found = context;

	found[0] = thread_priority_raise();
	found[1] = nice_of_this_thread();
	found[2] = nice_of_a_new_thread();
	return NULL;
}

static void *be_nice_and_raise(void *context)
{
	int *found = context;

	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 15);
	found[0] = thread_priority_raise();
	found[1] = nice_of_this_thread();
	return NULL;
}

static void run(void *(*fn)(void *), int *found)
{
	pthread_t thread;

	EXPECT_EQ(0, pthread_create(&thread, NULL, fn, found), "a thread");
	pthread_join(thread, NULL);
}

TEST(raises_this_thread_but_not_its_children)
{
	int found[3] = { 0 };

	if (nice_of_this_thread())
		SKIP("the test itself has a nice value");
	run(raise_and_look, found);
	if (found[0] == -EPERM)
		SKIP("CAP_SYS_NICE is missing");
	EXPECT_EQ(0, found[0], "raised");
	EXPECT_EQ(-10, found[1], "its nice value");
	EXPECT_EQ(0, found[2], "that of a thread it started");
	EXPECT_EQ(0, nice_of_this_thread(), "others are left alone");
}

TEST(keeps_a_nice_value_that_was_set)
{
	int found[3] = { 0 };

	run(be_nice_and_raise, found);
	EXPECT_EQ(1, found[0], "not raised");
	EXPECT_EQ(15, found[1], "its nice value");
}

RUN_TESTS(cmocka_unit_test(raises_this_thread_but_not_its_children),
	  cmocka_unit_test(keeps_a_nice_value_that_was_set))
