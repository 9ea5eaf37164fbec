// SPDX-License-Identifier: Apache-2.0
// Keeps CPUs busy at the end of deep native stacks, in rounds of random length and along random paths
// of functions with different frames, and counts its work in a file that others may map.
//
//     deep_calls [--threads N] [--depth N] [--paths N] [--seed N] --counter FILE
//
// It takes one of 64 paths each time, or of --paths; 0: hardly any path twice, so every stack is new to
// a profiler that recognizes known stacks.
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 400, FRAMES_ABOVE = 6, THREADS_MAX = 256, KINDS = 4 };

static uint64_t *counter; // one a thread, each on a line of its own
static int depth = 34;
static uint64_t paths = 64;
static uint64_t seed = 1;

static uint64_t next_random(uint64_t *state)
{
	// xorshift64, Marsaglia 2003
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

struct work {
	uint64_t random;
	uint64_t path; // random, too, but the same each time that this path is taken
	uint64_t *done;
};

typedef void call_function(struct work *work, int left);
static void call_next(struct work *work, int left);

static __attribute__((noinline)) void burn(struct work *work)
{
	uint64_t number = work->random | 1;

	for (uint64_t rounds = 1 + next_random(&work->random) % ROUNDS_MAX; rounds; rounds--) {
		for (int i = 0; i < 20000; i++)
			__asm__ volatile("imul $3, %0, %0" : "+r"(number));
		*work->done += 1;
	}
}

static __attribute__((noinline)) void call_plainly(struct work *work, int left)
{
	call_next(work, left);
	__asm__ volatile("");
}

static __attribute__((noinline)) void call_with_registers(struct work *work, int left)
{
	uint64_t a = work->random, b = a * 3, c = a ^ b, d = b + c, e = c * d;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	call_next(work, left);
	__asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e));
}

static __attribute__((noinline)) void call_with_block(struct work *work, int left)
{
	volatile char block[200];

	block[left & 127] = 1;
	call_next(work, left);
	block[0] = block[1];
}

static __attribute__((noinline)) void call_with_alloca(struct work *work, int left)
{
	volatile char *block = alloca(16 + next_random(&work->path) % 64);

	block[0] = 1;
	call_next(work, left);
	block[0] = 2;
}

static call_function *const kinds[KINDS] = { call_plainly, call_with_registers, call_with_block,
					     call_with_alloca };

static inline __attribute__((always_inline)) void call_next(struct work *work, int left)
{
	if (left)
		kinds[next_random(&work->path) % KINDS](work, left - 1);
	else
		burn(work);
}

static void *work_for_ever(void *number)
{
	uintptr_t at = (uintptr_t)number;
	struct work work = { (seed + at) * 0x9e3779b97f4a7c15ULL | 1, 0, &counter[at * 8] };

	for (;;) {
		uint64_t path = next_random(&work.random);

		if (paths)
			path = seed * 31 + path % paths;
		work.path = (path + 1) * 0x9e3779b97f4a7c15ULL | 1;
		call_next(&work, depth - FRAMES_ABOVE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int threads = 1, file = -1;

	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], "--threads"))
			threads = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--depth"))
			depth = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--paths"))
			paths = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--counter"))
			file = open(argv[i + 1], O_RDWR | O_CREAT, 0600);
	}
	if (file < 0 || threads < 1 || threads > THREADS_MAX || ftruncate(file, 64 * THREADS_MAX))
		return 2;
	counter = mmap(NULL, 64 * THREADS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	for (int i = 1; i < threads; i++)
		pthread_create(&thread, NULL, work_for_ever, (void *)(uintptr_t)i);
	work_for_ever(NULL);
	return 0;
}
