// SPDX-License-Identifier: Apache-2.0
// What the programs share: a thread's own books about its waits, printed as JSON at the end.
//
// A thread's time is known to itself: the clock says what elapsed, its CPU clock what it ran, and
// /proc/thread-self/schedstat how long it was runnable without a CPU. The rest it was blocked.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Functions with the same instructions stay functions of their own. */
#define NOINLINE __attribute__((noinline, noclone, no_icf))
/* Keeps compilers from making the call before it a jump, which would lose the frame. */
#define AFTERWARDS() __asm__ volatile("" ::: "memory")

enum {
	// Longer between two readings of the clock, and the thread lost the CPU within: read again.
	READ_NS_MAX = 200000,
	READ_TRIES = 20,
};

/* Readings of a thread's clocks; differences of two are times spent. */
struct books {
	uint64_t elapsed_ns;
	uint64_t running_ns;
	uint64_t waiting_ns;
};

/* A thread and the one place where it waits. */
struct story {
	const char *thread;
	const char *function; // that waits; NULL: none that counts
	const char *wait;     // its class
	uint64_t waits;
	struct books in_waits;
	struct books began, life; // of the thread
	struct books before;
	int schedstat;
	bool told;
};

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000ULL + (uint64_t)time.tv_nsec;
}

static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline void sleep_ns(uint64_t ns)
{
	struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	nanosleep(&time, NULL);
}

/* Of the calling thread, whose schedstat @descriptor is. */
static inline struct books books_read(int descriptor)
{
	struct books books = { 0, 0, 0 };

	for (int i = 0; i < READ_TRIES; i++) {
		char text[96] = "";
		unsigned long long waiting = 0;

		books.elapsed_ns = now_ns();
		books.running_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (pread(descriptor, text, sizeof(text) - 1, 0) > 0)
			sscanf(text, "%*u %llu", &waiting);
		books.waiting_ns = waiting;
		if (now_ns() - books.elapsed_ns < READ_NS_MAX)
			break;
	}
	return books;
}

static inline int open_schedstat(void)
{
	int descriptor = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	if (descriptor < 0) {
		perror("/proc/thread-self/schedstat");
		exit(1);
	}
	return descriptor;
}

static inline struct books books_since(struct books now, struct books before)
{
	return (struct books){ now.elapsed_ns - before.elapsed_ns,
			       now.running_ns - before.running_ns,
			       now.waiting_ns - before.waiting_ns };
}

static inline void books_add(struct books *sum, struct books part)
{
	sum->elapsed_ns += part.elapsed_ns;
	sum->running_ns += part.running_ns;
	sum->waiting_ns += part.waiting_ns;
}

/* In the thread itself, first and last of all. */
static inline void story_begin(struct story *story)
{
	prctl(PR_SET_NAME, story->thread);
	story->schedstat = open_schedstat();
	story->began = books_read(story->schedstat);
}

static inline void story_end(struct story *story)
{
	story->life = books_since(books_read(story->schedstat), story->began);
	close(story->schedstat);
	story->told = true;
}

/* Around each wait. */
static inline void wait_begin(struct story *story)
{
	story->before = books_read(story->schedstat);
}

static inline void wait_end(struct story *story)
{
	books_add(&story->in_waits, books_since(books_read(story->schedstat), story->before));
	story->waits++;
}

static inline void print_books(const char *name, struct books books)
{
	uint64_t busy = books.running_ns + books.waiting_ns;
	uint64_t blocked = books.elapsed_ns > busy ? books.elapsed_ns - busy : 0;

	printf("\"%s\": {\"elapsed\": %llu, \"running\": %llu, \"run_queue\": %llu, \"blocked\": "
	       "%llu}",
	       name, (unsigned long long)books.elapsed_ns, (unsigned long long)books.running_ns,
	       (unsigned long long)books.waiting_ns, (unsigned long long)blocked);
}

/* {"threads": [...]} on one line; @more is what else there is to say, with a comma before it. */
static inline void print_stories(const struct story *stories, size_t count, const char *more)
{
	const char *separator = "";

	printf("{\"threads\": [");
	for (size_t i = 0; i < count; i++) {
		const struct story *story = &stories[i];

		if (!story->told)
			continue;
		printf("%s{\"thread\": \"%s\", \"function\": \"%s\", \"wait\": \"%s\", \"waits\": "
		       "%llu, ",
		       separator, story->thread, story->function ? story->function : "",
		       story->wait ? story->wait : "", (unsigned long long)story->waits);
		print_books("in_waits", story->in_waits);
		printf(", ");
		print_books("life", story->life);
		printf("}");
		separator = ", ";
	}
	printf("]%s}\n", more);
	fflush(stdout);
}

/* "--seconds 5" among the arguments; @fallback without it. */
static inline const char *option(int argc, char **argv, const char *name, const char *fallback)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return argv[i + 1];
	return fallback;
}

static inline uint64_t random_between(uint64_t *state, uint64_t low, uint64_t high)
{
	// splitmix64, Steele, Lea and Flood 2014
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return low + (z ^ (z >> 31)) % (high - low);
}

/* Burn CPU time of this thread. */
static inline void burn(uint64_t ns)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin < ns)
		for (volatile int i = 0; i < 2000; i++)
			;
}
