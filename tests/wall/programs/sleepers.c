// SPDX-License-Identifier: Apache-2.0
// Threads that block at once and for ever. Says "blocked" when all do.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static __attribute__((noinline)) void wait_for_ever(void)
{
	pthread_mutex_lock(&mutex);
	__asm__ volatile("" ::: "memory"); // no tail call
}

static void *worker(void *unused)
{
	(void)unused;
	wait_for_ever();
	return NULL;
}

int main(void)
{
	pthread_t thread;

	pthread_mutex_lock(&mutex);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, worker, NULL))
			return 1;
	usleep(300000);
	puts("blocked");
	fflush(stdout);
	wait_for_ever();
	return 0;
}
