// SPDX-License-Identifier: Apache-2.0
// Threads with known wakers: holder() wakes wait_for_mutex(), writer() wakes wait_for_pipe(),
// signaller() wakes wait_for_condition(), and only the timer wakes sleeper().
// Prints its pid when all are there, then runs until it
// is killed.

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Keeps compilers from making the call before it the last one. */
#define AFTERWARDS __asm__ volatile("" ::: "memory")

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t state_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned long state;
static int pipe_ends[2];

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* Holds the mutex for 20 ms and is without it for 5: its unlock wakes the waiter. */
static NOINLINE void holder(void)
{
	pthread_mutex_lock(&mutex);
	sleep_ms(20);
	pthread_mutex_unlock(&mutex);
	AFTERWARDS;
}

static NOINLINE void wait_for_mutex(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	AFTERWARDS;
}

static NOINLINE void writer(void)
{
	if (write(pipe_ends[1], "", 1) != 1)
		abort();
	AFTERWARDS;
}

static NOINLINE void wait_for_pipe(void)
{
	char byte;

	if (read(pipe_ends[0], &byte, 1) != 1)
		abort();
	AFTERWARDS;
}

static NOINLINE void signaller(void)
{
	pthread_mutex_lock(&state_mutex);
	state++;
	pthread_mutex_unlock(&state_mutex);
	pthread_cond_signal(&changed);
	AFTERWARDS;
}

/* With short timeouts, as Python's threads wait for the GIL. */
static NOINLINE void wait_for_condition(void)
{
	pthread_mutex_lock(&state_mutex);
	for (unsigned long before = state; before == state;) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 5000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&changed, &state_mutex, &until);
	}
	pthread_mutex_unlock(&state_mutex);
	AFTERWARDS;
}

static NOINLINE void sleeper(void)
{
	sleep_ms(10);
	AFTERWARDS;
}

static const struct part {
	const char *name;
	void (*body)(void);
	long pause_ms; // between two calls
} parts[] = {
	{ "holds", holder, 5 },       { "wants-mutex", wait_for_mutex, 1 },
	{ "writes", writer, 20 },     { "wants-pipe", wait_for_pipe, 0 },
	{ "signals", signaller, 30 }, { "wants-change", wait_for_condition, 0 },
	{ "sleeps", sleeper, 0 },
};

static void *play(void *context)
{
	const struct part *part = context;

	prctl(PR_SET_NAME, part->name);
	for (;;) {
		part->body();
		if (part->pause_ms)
			sleep_ms(part->pause_ms);
	}
	return NULL;
}

int main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pipe(pipe_ends))
		return 1;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, play, (void *)&parts[i]))
			abort();
	}
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		pause();
}
