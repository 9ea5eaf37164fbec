// SPDX-License-Identifier: Apache-2.0
// Threads that are made all the time and live some microseconds: by pthread_create(), and by clone() on
// a stack of their own. Much of that is the system call, on both of its ends.
//
//     spawn [--seconds S]
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/truth/native/walk.h"

enum {
	STACK_BYTES = 64 << 10,
	LIFE_NS = 2000,
	AT_ONCE = 100, // between two looks at the clock
	WAIT = 0,      // linux/futex.h, which musl's compiler does not find
};

static NOINLINE void live(void)
{
	uint64_t end = thread_cpu_ns() + LIFE_NS;

	while (thread_cpu_ns() < end)
		;
	KEEP_FRAME();
}

static NOINLINE void *thread_main(void *argument)
{
	live();
	KEEP_FRAME();
	return argument;
}

static NOINLINE void make_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
		pthread_join(thread, NULL);
}

static NOINLINE int cloned_main(void *argument)
{
	(void)argument;
	live();
	KEEP_FRAME();
	return 0;
}

static NOINLINE void make_clone(char *stack)
{
	static volatile int tid; // cleared by the kernel, which then wakes who waits for that
	const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			  CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;

	if (clone(cloned_main, stack + STACK_BYTES, flags, NULL, &tid, NULL, &tid) < 0)
		abort();
	for (int made; (made = tid) != 0;)
		syscall(SYS_futex, &tid, WAIT, made, NULL);
}

static NOINLINE void run_all(double seconds, char *stack)
{
	uint64_t end = thread_cpu_ns() + (uint64_t)(seconds * 1e9);

	while (thread_cpu_ns() < end) {
		for (int i = 0; i < AT_ONCE; i++) {
			make_thread();
			make_clone(stack);
		}
	}
}

int main(int argc, char **argv)
{
	double seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? atof(argv[2]) : 2;
	char *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		return 1;
	printf("chain main run_all make_thread\n");
	printf("chain main run_all make_clone\n");
	printf("chain thread_main live\n");
	printf("chain cloned_main live\n");
	fflush(stdout);
	run_all(0.5, stack);
	prctl(PR_SET_NAME, "truth");
	run_all(seconds / 2, stack);
	prctl(PR_SET_NAME, "done");
	return 0;
}
