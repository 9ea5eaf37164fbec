// SPDX-License-Identifier: Apache-2.0
// What lazy.c calls.
#include "tests/truth/native/walk.h"

extern double lazy_seconds;

int bound_again(int number);
int bound_again(int number)
{
	return number + 1;
}

static NOINLINE void burn_in_resolver(void)
{
	uint64_t number = 1, end = thread_cpu_ns() + (uint64_t)(lazy_seconds * 1e9);

	while (thread_cpu_ns() < end)
		for (int i = 0; i < 1000; i++)
			TRIPLE(number);
}

/* The linker runs it when the function is first called. */
static NOINLINE void *resolve(void)
{
	burn_in_resolver();
	KEEP_FRAME();
	return bound_again;
}

int bound_by_resolver(int number) __attribute__((ifunc("resolve")));
