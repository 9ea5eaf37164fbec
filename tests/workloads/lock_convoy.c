// SPDX-License-Identifier: Apache-2.0
// Threads that look something up under one lock, for a moment each, and a thread that on the word "SECONDS" on standard input
// rebuilds what they look up, with the lock held, for so long: a lock convoy with a known cause.

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

enum { WORKERS = 6, REBUILD_NS = 150 * 1000 * 1000, PAUSE_NS = 5 * 1000 * 1000 };

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t cache;

static void sleep_ns(long ns)
{
	const struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

static NOINLINE void cache_get(void)
{
	pthread_mutex_lock(&cache_lock);
	cache++;
	pthread_mutex_unlock(&cache_lock);
}

static NOINLINE void handle_request(unsigned int *seed)
{
	for (int i = 0; i < 20; i++) {
		cache_get();
		for (volatile int spin = 0; spin < 5000; spin++)
			;
	}
	sleep_ns(20 * 1000 * 1000 + rand_r(seed) % (40 * 1000 * 1000));
}

static void *serve(void *seed)
{
	for (;;)
		handle_request(seed);
	return NULL;
}

static NOINLINE void rebuild_cache(void)
{
	pthread_mutex_lock(&cache_lock);
	sleep_ns(REBUILD_NS);
	pthread_mutex_unlock(&cache_lock);
	sleep_ns(PAUSE_NS);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(void)
{
	static unsigned int seeds[WORKERS];
	double seconds;
	pthread_t thread;

	for (unsigned int i = 0; i < WORKERS; i++) {
		seeds[i] = (unsigned int)getpid() * WORKERS + i;
		if (pthread_create(&thread, NULL, serve, &seeds[i]))
			return 1;
	}
	while (scanf("%lf", &seconds) == 1) {
		for (double end = now() + seconds; now() < end;)
			rebuild_cache();
	}
	return 0;
}
