// SPDX-License-Identifier: Apache-2.0
// Keeps CPUs busy in native stacks of random depth that go through libc (qsort, bsearch, nftw, lfind, and
// callbacks of these) and end in arithmetic, in page faults, in reads or in copies: hardly any path comes
// twice. With --cold it calls thousands of functions that a script generated, most of which are not in any
// cache when they are called.
//
//     random_calls [--threads N] [--depth-min N] [--depth-max N] [--cold] [--seed N] [--seconds N]
//                  --folder FOLDER --counter FILE
//
// FOLDER is what nftw() walks. It counts its work in FILE, which others may map, and ends by itself.
#define _GNU_SOURCE
#include "bench/random_calls.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
	ROUNDS_MAX = 40,        // of arithmetic, at the end of a path
	FRAMES_ABOVE = 8,       // of work_for_ever(), and at the end of a path
	FRAMES_A_CALL = 2,      // with that of call_next()
	CALLS_THROUGH_LIBC = 2, // as many frames as so many calls have
	THREADS_MAX = 256,
	FAULTS_MAX = 64, // pages touched at the end of a path
	ARENA_BYTES = FAULTS_MAX << 12,
	READ_BYTES = 16 << 10,
	FTW_DESCRIPTORS = 4,
};

static uint64_t *counter; // one a thread, each on a line of its own
static unsigned depth_min = 8, depth_max = 96;
static bool is_cold;
static uint64_t seed = 1;
static const char *folder;

// libc's callbacks get no argument of ours.
static __thread struct work *current;
static __thread unsigned current_left;

static uint64_t next_random(uint64_t *state)
{
	// xorshift64, Marsaglia 2003
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* ---- ends of a path ------------------------------------------------------------------------ */

static __attribute__((noinline)) void calculate(struct work *work)
{
	uint64_t number = work->random | 1;

	for (uint64_t rounds = 1 + next_random(&work->random) % ROUNDS_MAX; rounds; rounds--) {
		for (int i = 0; i < 2000; i++)
			__asm__ volatile("imul $3, %0, %0" : "+r"(number));
	}
}

static __attribute__((noinline)) void fault_pages(struct work *work)
{
	uint64_t pages = 1 + next_random(&work->random) % FAULTS_MAX;

	madvise(work->arena, ARENA_BYTES, MADV_DONTNEED);
	for (uint64_t i = 0; i < pages; i++)
		work->arena[i << 12] = 1;
}

static __attribute__((noinline)) void read_file(struct work *work)
{
	if (pread(work->file, work->arena, READ_BYTES, 0) < 0)
		abort();
}

static __attribute__((noinline)) void copy(struct work *work)
{
	memmove(work->arena + 1, work->arena, ARENA_BYTES / 2);
}

static void finish(struct work *work)
{
	switch (next_random(&work->random) % 4) {
	case 0:
		fault_pages(work);
		break;
	case 1:
		read_file(work);
		break;
	case 2:
		copy(work);
		break;
	default:
		calculate(work);
	}
	*work->done += 1;
}

/* ---- ways through libc --------------------------------------------------------------------- */

static void go_on(void)
{
	unsigned left = current_left;

	current_left = 0; // the callback goes on once, however often it is called
	if (left)
		call_next(current, left - 1);
}

static int compare(const void *a, const void *b)
{
	go_on();
	return *(const int *)a - *(const int *)b;
}

static int visit(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)path, (void)status, (void)kind, (void)place;
	go_on();
	return 1; // nothing more is to be walked
}

static void enter_libc(struct work *work, unsigned left)
{
	current = work;
	current_left = left > CALLS_THROUGH_LIBC ? left - CALLS_THROUGH_LIBC + 1 : 1;
}

static __attribute__((noinline)) void through_qsort(struct work *work, unsigned left)
{
	int numbers[] = { 5, 3, 8, 1, 7, 2 };

	enter_libc(work, left);
	qsort(numbers, 6, sizeof(*numbers), compare);
	__asm__ volatile("" : : "r"(numbers) : "memory");
}

static __attribute__((noinline)) void through_bsearch(struct work *work, unsigned left)
{
	int numbers[] = { 1, 2, 3, 5, 7, 8 }, key = 3;

	enter_libc(work, left);
	const void *found = bsearch(&key, numbers, 6, sizeof(*numbers), compare);
	__asm__ volatile("" : : "r"(found) : "memory");
}

static __attribute__((noinline)) void through_lfind(struct work *work, unsigned left)
{
	int numbers[] = { 5, 3, 8 }, key = 8;
	size_t count = 3;

	enter_libc(work, left);
	const void *found = lfind(&key, numbers, &count, sizeof(*numbers), compare);
	__asm__ volatile("" : : "r"(found) : "memory");
}

static __attribute__((noinline)) void through_nftw(struct work *work, unsigned left)
{
	enter_libc(work, left);
	nftw(folder, visit, FTW_DESCRIPTORS, FTW_PHYS);
	__asm__ volatile("");
}

/* ---- calls of our own ---------------------------------------------------------------------- */

static __attribute__((noinline)) void call_plainly(struct work *work, unsigned left)
{
	call_next(work, left);
	__asm__ volatile("");
}

static __attribute__((noinline)) void call_with_registers(struct work *work, unsigned left)
{
	uint64_t a = work->random, b = a * 3, c = a ^ b, d = b + c, e = c * d;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
	call_next(work, left);
	__asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e));
}

static __attribute__((noinline)) void call_with_block(struct work *work, unsigned left)
{
	volatile char block[200];

	block[left & 127] = 1;
	call_next(work, left);
	block[0] = block[1];
}

static __attribute__((noinline)) void call_with_alloca(struct work *work, unsigned left)
{
	volatile char *block = __builtin_alloca(16 + next_random(&work->random) % 64);

	block[0] = 1;
	call_next(work, left);
	block[0] = 2;
}

static call_function *const calls[] = { call_plainly, call_with_registers, call_with_block,
					call_with_alloca };
static call_function *const through_libc[] = { through_qsort, through_bsearch, through_lfind,
					       through_nftw };

void call_next(struct work *work, unsigned left)
{
	if (!left)
		return finish(work);
	uint64_t chance = next_random(&work->random);

	if (chance % 8 == 0)
		return through_libc[chance / 8 % 4](work, left - 1);
	if (is_cold)
		return cold_calls[chance / 8 % cold_count](work, left - 1);
	calls[chance / 8 % 4](work, left - 1);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void *work_for_ever(void *number)
{
	uintptr_t at = (uintptr_t)number;
	struct work work = { .random = (seed + at) * 0x9e3779b97f4a7c15ULL | 1,
			     .done = &counter[at * 8] };

	work.arena =
		mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	work.file = open("/proc/self/exe", O_RDONLY);
	if (work.arena == MAP_FAILED || work.file < 0)
		abort();
	for (;;) {
		uint64_t depth =
			depth_min + next_random(&work.random) % (depth_max - depth_min + 1);

		call_next(&work, depth > FRAMES_ABOVE
					 ? (unsigned)(depth - FRAMES_ABOVE) / FRAMES_A_CALL
					 : 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = 1, file = -1;
	pthread_t thread;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (!strcmp(argv[i], "--cold"))
			is_cold = true;
		else if (!strcmp(argv[i], "--threads"))
			threads = atoi(value);
		else if (!strcmp(argv[i], "--depth-min"))
			depth_min = (unsigned)atoi(value);
		else if (!strcmp(argv[i], "--depth-max"))
			depth_max = (unsigned)atoi(value);
		else if (!strcmp(argv[i], "--seed"))
			seed = strtoull(value, NULL, 0);
		else if (!strcmp(argv[i], "--seconds"))
			alarm((unsigned)atoi(value));
		else if (!strcmp(argv[i], "--folder"))
			folder = value;
		else if (!strcmp(argv[i], "--counter"))
			file = open(value, O_RDWR | O_CREAT, 0600);
	}
	if (file < 0 || !folder || threads < 1 || threads > THREADS_MAX || depth_max < depth_min ||
	    ftruncate(file, 64 * THREADS_MAX))
		return 2;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	counter = mmap(NULL, 64 * THREADS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	for (int i = 1; i < threads; i++)
		pthread_create(&thread, NULL, work_for_ever, (void *)(uintptr_t)i);
	work_for_ever(NULL);
	return 0;
}
