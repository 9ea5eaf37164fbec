// SPDX-License-Identifier: Apache-2.0
// Context switches: pairs of threads that hand a byte to and fro through two pipes, for ever.
//
//     switches --cpus 0,0 --work-ns 0 --counter FILE
//
// The two threads of a pair run on the CPUs that --cpus names (more pairs: 0,0,1,1). --work-ns is what
// a thread computes each time before it hands the byte on. The file has 64 bytes for each pair: how
// often both were given the byte.

#define _GNU_SOURCE // CPU_SET()

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS_MAX = 64, LINE_BYTES = 64, CALIBRATION_LOOPS = 20000000 };

struct pair {
	int cpus[2];
	int there[2], back[2];
	volatile uint64_t *turns;
};

static long work_loops;

static __attribute__((noinline)) void work(long loops)
{
	for (long i = 0; i < loops; i++)
		__asm__ volatile("" : "+r"(i));
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		perror("sched_setaffinity");
}

static __attribute__((noinline)) bool hand_on(int to, int from)
{
	char byte = 0;

	return write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1;
}

static void *ping(void *context)
{
	struct pair *pair = context;

	pin(pair->cpus[0]);
	while (hand_on(pair->there[1], pair->back[0])) {
		++*pair->turns;
		work(work_loops);
	}
	return NULL;
}

static void *pong(void *context)
{
	struct pair *pair = context;
	char byte;

	pin(pair->cpus[1]);
	if (read(pair->there[0], &byte, 1) != 1)
		return NULL;
	do
		work(work_loops);
	while (hand_on(pair->back[1], pair->there[0]));
	return NULL;
}

static double loops_per_ns(void)
{
	struct timespec begin, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	work(CALIBRATION_LOOPS);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return CALIBRATION_LOOPS /
	       ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec));
}

static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return argv[i + 1];
	return fallback;
}

static int start(struct pair *pair)
{
	pthread_t thread;

	if (pipe(pair->there) || pipe(pair->back))
		return -1;
	return pthread_create(&thread, NULL, ping, pair) ||
	       pthread_create(&thread, NULL, pong, pair);
}

int main(int argc, char **argv)
{
	static struct pair pairs[PAIRS_MAX];
	char *cpus = strdup(option(argc, argv, "--cpus", "0,0"));
	int descriptor =
		open(option(argc, argv, "--counter", ""), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int count = 0;

	if (descriptor < 0 || ftruncate(descriptor, PAIRS_MAX * LINE_BYTES)) {
		perror("--counter");
		return 1;
	}
	char *counters = mmap(NULL, PAIRS_MAX * LINE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			      descriptor, 0);
	if (counters == MAP_FAILED)
		return 1;
	work_loops = (long)(atof(option(argc, argv, "--work-ns", "0")) * loops_per_ns());
	for (char *at = strtok(cpus, ","); at && count < 2 * PAIRS_MAX; at = strtok(NULL, ","))
		pairs[count / 2].cpus[count % 2] = atoi(at), count++;
	for (int i = 0; i < count / 2; i++) {
		pairs[i].turns = (volatile uint64_t *)(counters + i * LINE_BYTES);
		if (start(&pairs[i]))
			return 1;
	}
	for (;;)
		pause();
}
