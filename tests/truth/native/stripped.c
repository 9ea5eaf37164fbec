// SPDX-License-Identifier: Apache-2.0
// To be built without unwind information and stripped, as static busybox is: functions that are called, that stand in a
// table of data, that are behind a jump table, and one that never returns.
//
//     stripped [--seconds S]
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { DEPTH = 12, ROUNDS = 20000, WARM_UP_SECONDS = 3 };

#define APART __attribute__((noinline, noclone))

static jmp_buf again;
static volatile long sink;

static APART long spin(long rounds)
{
	for (long i = 0; i < rounds; i++)
		sink += i;
	return sink;
}

static APART void give_up(void)
{
	longjmp(again, 1);
}

/* Its last call never returns: what follows is another function. */
static APART long fail(long depth)
{
	char text[200];

	memset(text, (int)depth, sizeof(text));
	spin(ROUNDS / 10 + text[depth]);
	give_up();
	__builtin_unreachable();
}

static APART long deep(long depth)
{
	long words[6];

	if (depth == 0)
		return spin(ROUNDS);
	for (int i = 0; i < 6; i++)
		words[i] = depth + i;
	return deep(depth - 1) + words[depth % 6];
}

static APART long first(long depth)
{
	return deep(depth) + 1;
}

static APART long second(long depth)
{
	long more[3] = { depth, depth + 1, depth + 2 };

	return deep(depth / 2) + more[depth % 3];
}

static long (*const table[])(long) = { first, second };

static APART long choose(long what, long depth)
{
	switch (what) {
	case 0:
		return table[0](depth) + 3;
	case 1:
		return table[1](depth) + 5;
	case 2:
		return deep(depth) + deep(1);
	case 3:
		if (!setjmp(again))
			return fail(depth);
		return 0;
	case 4:
		return first(depth) * second(depth);
	default:
		return spin(what);
	}
}

static double now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static APART void work_until(double end)
{
	for (long i = 0; now() < end; i++)
		choose(i % 6, DEPTH);
}

int main(int argc, char **argv)
{
	double seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? atof(argv[2]) : 2;

	work_until(now() + WARM_UP_SECONDS);
	prctl(PR_SET_NAME, "truth");
	work_until(now() + seconds);
	return 0;
}
