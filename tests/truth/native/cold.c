// SPDX-License-Identifier: Apache-2.0
// A thread whose outer frames are on pages that are not in memory, as after swapping: its stack is a
// file's, and the pages are let go before the leaf burns. Reading them in the kernel fails, the
// program itself finds them again. Prints the chain it is in.
//
//     cold [--seconds S]
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/truth/native/walk.h"

enum {
	STACK_BYTES = 4 << 20,
	DEPTH = 40,
	WARM_BYTES = 48 << 10, // of the innermost frames stay
	BURN_NS = 50000000,
	ROUND_NS_MAX = 100000000,
};

static char *stack;
static double seconds = 2;

static NOINLINE void burn_cold(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t from = (here + WARM_BYTES) & ~4095UL, limit = (uintptr_t)stack + STACK_BYTES;
	uint64_t number = 1, end = thread_cpu_ns() + BURN_NS;

	madvise((void *)from, limit - from, MADV_DONTNEED);
	while (thread_cpu_ns() < end)
		for (int i = 0; i < 1000; i++)
			TRIPLE(number);
}

static NOINLINE void descend(int depth)
{
	volatile char block[6000];

	block[depth] = 1;
	if (depth > 1)
		descend(depth - 1);
	else
		burn_cold();
	block[0] = block[depth];
}

static NOINLINE void run_cold(void)
{
	struct timespec now;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (end = now.tv_sec + 1; now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now))
		descend(DEPTH);
	prctl(PR_SET_NAME, "truth");
	for (end = now.tv_sec + (time_t)seconds; now.tv_sec < end;
	     clock_gettime(CLOCK_MONOTONIC, &now))
		descend(DEPTH);
	prctl(PR_SET_NAME, "done");
}

static NOINLINE void *thread_main(void *nothing)
{
	run_cold();
	KEEP_FRAME();
	return nothing;
}

int main(int argc, char **argv)
{
	int file = memfd_create("stack", 0);
	pthread_attr_t attributes;
	pthread_t thread;

	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--seconds"))
			seconds = atof(argv[i + 1]);
	if (file < 0 || ftruncate(file, STACK_BYTES))
		return 1;
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, STACK_BYTES);
	printf("chain thread_main run_cold descend*%d burn_cold\n", DEPTH);
	fflush(stdout);
	if (pthread_create(&thread, &attributes, thread_main, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
