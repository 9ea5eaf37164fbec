// SPDX-License-Identifier: Apache-2.0
// A chain of calls that is being walked: each step calls the next, the last one burns CPU. The
// chain is drawn at random and written down before it is walked, so every sample has a known stack.
#pragma once

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CHAIN_STEPS_MAX = 64 };

#define NOINLINE      __attribute__((noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Keeps a call before it from becoming a jump, which would lose the frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

struct walk;
typedef void step_function(struct walk *walk);

/*
 * A step as the chain's writer names it. @path is the functions from this one to the one that calls
 * the next step, outermost first. "~": functions that are not ours, at least one; "~?": any number;
 * a trailing "?": it may be missing; "/.../": a regular expression.
 */
struct step {
	step_function *function;
	const char *path;
};

struct walk {
	const struct step *chain[CHAIN_STEPS_MAX];
	int at;          // the next step
	int recursion;   // how deep step_recursion() goes
	uint64_t ns;     // CPU time the leaf burns
	uint64_t random; // state of the thread's generator
	jmp_buf home;    // where a chain that does not return ends
	volatile uint64_t sink;
};

extern const struct step c_steps[], cpp_steps[], c_leaves[];
extern const size_t c_step_count, cpp_step_count, c_leaf_count;

/* The walk of the running thread, for handlers and for callbacks that get no pointer. */
extern __thread struct walk *current_walk;

#define GO_ON(walk)              \
	do {                     \
		call_next(walk); \
		KEEP_FRAME();    \
	} while (0)

ALWAYS_INLINE void call_next(struct walk *walk)
{
	walk->chain[walk->at++]->function(walk);
}

/* splitmix64, Steele, Lea and Flood 2014. */
ALWAYS_INLINE uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

ALWAYS_INLINE uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return next_random(state) % limit;
}

/* A bare system call: a leaf must stay a leaf. */
ALWAYS_INLINE long bare_call(long number, long first, long second, long third)
{
#ifdef __aarch64__
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = first;
	register long x1 __asm__("x1") = second;
	register long x2 __asm__("x2") = third;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return rc;
#endif
}

ALWAYS_INLINE uint64_t thread_cpu_ns(void)
{
	struct timespec now = { 0, 0 };

	(void)bare_call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&now, 0);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* One instruction that a compiler cannot remove. */
#ifdef __aarch64__
#define TRIPLE(number) __asm__ volatile("add %0, %0, %0, lsl #1" : "+r"(number))
#else
#define TRIPLE(number) __asm__ volatile("imul $3, %0, %0" : "+r"(number))
#endif

/* Repeat a statement until the leaf has used up its time. */
#define BURN(walk, ...)                                           \
	do {                                                      \
		uint64_t burn_end = thread_cpu_ns() + (walk)->ns; \
		do {                                              \
			__VA_ARGS__;                              \
		} while (thread_cpu_ns() < burn_end);             \
	} while (0)
