// SPDX-License-Identifier: Apache-2.0
// Threads that block at a few sites, at a chosen rate, with their own account of each site:
//
//     sites --seconds 10 --rate 10000
//
// "sleeper" sleeps at three sites for different times; "reader" is in one read() all its life. Above
// SLEEPS_MAX switches a second a pair of threads on each CPU hands a byte to and fro besides.

#include "tests/wall/programs/story.h"

#include <sys/sysinfo.h>

enum { SITES = 3, SLEEPS_MAX = 10000, PAIRS_MAX = 64, SWITCH_NS = 1500 };

/* Off-CPU time: elapsed, less CPU time. */
static uint64_t off_cpu_ns[SITES];
static uint64_t end_ns;

static void sleep_and_account(int site, uint64_t ns)
{
	uint64_t began_ns = now_ns(), cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	sleep_ns(ns);
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	off_cpu_ns[site] += now_ns() - began_ns - cpu_ns;
}

static NOINLINE void site_short(uint64_t ns)
{
	sleep_and_account(0, ns / 2);
	AFTERWARDS();
}

static NOINLINE void site_middle(uint64_t ns)
{
	sleep_and_account(1, ns);
	AFTERWARDS();
}

static NOINLINE void site_long(uint64_t ns)
{
	sleep_and_account(2, 2 * ns);
	AFTERWARDS();
}

/* @context: how long a sleep is on average. The order has no pattern that a sampler could be in step with. */
static void *play_sleeper(void *context)
{
	uint64_t random = 1, ns = *(uint64_t *)context;

	prctl(PR_SET_NAME, "sleeper");
	prctl(PR_SET_TIMERSLACK, 1);
	while (now_ns() < end_ns) {
		uint64_t turn = random_between(&random, 0, 6);

		if (turn < 3)
			site_short(ns);
		else if (turn < 5)
			site_middle(ns);
		else
			site_long(ns);
	}
	return NULL;
}

static NOINLINE void read_all_life(int descriptor)
{
	char byte;

	while (read(descriptor, &byte, 1) < 0)
		;
	AFTERWARDS();
}

static void *play_reader(void *context)
{
	prctl(PR_SET_NAME, "reader");
	read_all_life(*(int *)context);
	return NULL;
}

struct pair {
	int cpu;
	int there[2], back[2];
	uint64_t work_ns;
};

static void work(uint64_t ns)
{
	uint64_t began_ns = now_ns();

	while (now_ns() - began_ns < ns)
		;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *play_ping(void *context)
{
	struct pair *pair = context;
	char byte = 0;

	prctl(PR_SET_NAME, "pair-ping");
	pin(pair->cpu);
	while (now_ns() < end_ns && write(pair->there[1], &byte, 1) == 1 &&
	       read(pair->back[0], &byte, 1) == 1)
		work(pair->work_ns);
	close(pair->there[1]);
	return NULL;
}

static void *play_pong(void *context)
{
	struct pair *pair = context;
	char byte;

	prctl(PR_SET_NAME, "pair-pong");
	pin(pair->cpu);
	while (read(pair->there[0], &byte, 1) == 1) {
		work(pair->work_ns);
		if (write(pair->back[1], &byte, 1) != 1)
			break;
	}
	return NULL;
}

static pthread_t start(void *(*play)(void *), void *context)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, play, context)) {
		perror("pthread_create");
		exit(1);
	}
	return thread;
}

static void run_pairs(uint64_t switches, int count)
{
	static struct pair pairs[PAIRS_MAX];
	pthread_t threads[2 * PAIRS_MAX];
	uint64_t ns = 1000000000ULL * (uint64_t)count / switches;

	for (int i = 0; i < count; i++) {
		pairs[i].cpu = i;
		pairs[i].work_ns = ns > SWITCH_NS ? ns - SWITCH_NS : 0;
		if (pipe(pairs[i].there) || pipe(pairs[i].back))
			exit(1);
		threads[2 * i] = start(play_ping, &pairs[i]);
		threads[2 * i + 1] = start(play_pong, &pairs[i]);
	}
	for (int i = 0; i < 2 * count; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	uint64_t seconds = strtoull(option(argc, argv, "--seconds", "10"), NULL, 10);
	uint64_t rate = strtoull(option(argc, argv, "--rate", "1000"), NULL, 10);
	uint64_t sleep = 1000000000ULL / (rate < SLEEPS_MAX ? rate : SLEEPS_MAX);
	int forever[2], cpus = get_nprocs() < PAIRS_MAX ? get_nprocs() : PAIRS_MAX;

	if (pipe(forever))
		return 1;
	end_ns = now_ns() + seconds * 1000000000ULL;
	pthread_t reader = start(play_reader, &forever[0]);
	pthread_t sleeper = start(play_sleeper, &sleep);
	if (rate > SLEEPS_MAX)
		run_pairs(rate, cpus);
	pthread_join(sleeper, NULL);
	close(forever[1]);
	pthread_join(reader, NULL);
	printf("{\"threads\": [], \"site_short\": %llu, \"site_middle\": %llu, \"site_long\": "
	       "%llu}\n",
	       (unsigned long long)off_cpu_ns[0], (unsigned long long)off_cpu_ns[1],
	       (unsigned long long)off_cpu_ns[2]);
	return 0;
}
