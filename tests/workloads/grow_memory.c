// SPDX-License-Identifier: Apache-2.0
// Touches known amounts of memory in functions with known names, and prints how much in each. Arguments:
// seconds to run before, so that it is known to the profiler, and seconds to stay afterwards.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MIB = 1 << 20,
	HUGE = 2 * MIB,
	SMALL_BYTES = 48 * MIB,
	HUGE_BYTES = 96 * MIB,
	COPIED_BYTES = 32 * MIB,
	READ_BYTES = 32 * MIB,
	STEPS = 16, // with a pause after each: a service grows, it does not jump
};

static volatile uint64_t sink;

static void burn(double seconds)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 100000; i++)
			sink += i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
}

static char *map_memory(size_t bytes, int advice)
{
	char *memory = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
	madvise(memory, bytes, advice);
	return memory;
}

/* One function of the printed bytes. It is never inlined, so its name is on the stack. */
#define TOUCHER(name)                                                          \
	__attribute__((noinline)) static void name(char *memory, size_t bytes) \
	{                                                                      \
		for (size_t at = 0; at < bytes; at += 4096)                    \
			((volatile char *)memory)[at]++;                       \
		sink++;                                                        \
	}

TOUCHER(grow_by_small_pages)
TOUCHER(grow_by_huge_pages)
TOUCHER(grow_by_copies)

__attribute__((noinline)) static void read_without_growing(char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 4096)
		sink += ((volatile char *)memory)[at];
	sink++;
}

static void in_steps(void (*fn)(char *, size_t), char *memory, size_t bytes)
{
	for (int i = 0; i < STEPS; i++) {
		fn(memory + bytes / STEPS * i, bytes / STEPS);
		usleep(50000);
	}
}

/* A child writes to what it shares with its parent. */
static void copy_in_a_child(void)
{
	char *memory = map_memory(COPIED_BYTES, MADV_NOHUGEPAGE);
	int status;

	grow_by_small_pages(memory, COPIED_BYTES);
	pid_t pid = fork();
	if (pid == 0) {
		burn(1);
		in_steps(grow_by_copies, memory, COPIED_BYTES);
		usleep(100000);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (status)
		exit(1);
}

int main(int argc, char **argv)
{
	double before = argc > 1 ? atof(argv[1]) : 1, after = argc > 2 ? atof(argv[2]) : 1;

	alarm(120);
	burn(before);
	in_steps(grow_by_small_pages, map_memory(SMALL_BYTES, MADV_NOHUGEPAGE), SMALL_BYTES);
	in_steps(grow_by_huge_pages, map_memory(HUGE_BYTES, MADV_HUGEPAGE), HUGE_BYTES);
	in_steps(read_without_growing, map_memory(READ_BYTES, MADV_NOHUGEPAGE), READ_BYTES);
	copy_in_a_child();
	usleep(after * 1e6);
	printf("{\"grow_by_small_pages\": %d, \"grow_by_huge_pages\": %d, \"grow_by_copies\": %d, "
	       "\"read_without_growing\": 0}\n",
	       SMALL_BYTES + COPIED_BYTES, HUGE_BYTES, COPIED_BYTES);
	return 0;
}
