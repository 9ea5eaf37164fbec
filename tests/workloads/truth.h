// SPDX-License-Identifier: Apache-2.0
// What the workloads share: CPU time as the kernel accounts it, a small random generator, options,
// and the truth printed as JSON at the end. C and C++; frame pointers are needed.
//
// CPU time is read by the bare system call within the burning function: libc's wrapper has no
// frame pointer and would hide its caller from a profiler that follows frame pointers.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define NOINLINE      __attribute__((noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Keeps the compiler from turning the call before it into a jump, which would lose the frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

ALWAYS_INLINE long bare_syscall(long number, long a, long b, long c)
{
#if defined(__x86_64__)
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#else
#error "no bare system call for this machine"
#endif
}

ALWAYS_INLINE uint64_t clock_ns(clockid_t clock)
{
	struct timespec time = { 0, 0 };

	bare_syscall(SYS_clock_gettime, (long)clock, (long)&time, 0);
	return (uint64_t)time.tv_sec * 1000000000ULL + (uint64_t)time.tv_nsec;
}

ALWAYS_INLINE uint64_t thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* About 50 us of arithmetic that no compiler can drop. */
ALWAYS_INLINE uint64_t spin(uint64_t seed)
{
	for (int i = 0; i < 20000; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		__asm__ volatile("" : "+r"(seed));
	}
	return seed;
}

/* Burn @ns of this thread's CPU time in the function it is inlined into; returns the time used. */
ALWAYS_INLINE uint64_t burn_ns(uint64_t ns)
{
	uint64_t begin = thread_cpu_ns(), now = begin, seed = begin | 1;

	while (now - begin < ns) {
		seed = spin(seed);
		now = thread_cpu_ns();
	}
	return now - begin;
}

struct random_source {
	uint64_t state;
};

static inline double random_unit(struct random_source *random)
{
	// splitmix64, Steele, Lea and Flood 2014
	uint64_t z = random->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static inline uint64_t random_between(struct random_source *random, uint64_t low, uint64_t high)
{
	return low + (uint64_t)(random_unit(random) * (double)(high - low));
}

/* "--seconds 5" among the arguments; @fallback without it. */
static inline double option_number(int argc, char **argv, const char *name, double fallback)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return atof(argv[i + 1]);
	return fallback;
}

static inline struct random_source random_seeded(int argc, char **argv)
{
	struct random_source random;

	random.state = (uint64_t)option_number(argc, argv, "--seed",
					       (double)(clock_ns(CLOCK_REALTIME) & 0xffffff));
	return random;
}

static inline uint64_t process_cpu_ns(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ULL +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ULL;
}

struct truth {
	const char *function; // as it is shown: demangled, without parameters
	uint64_t cpu_ns;      // spent in it and in what it called
};

/* {"process_cpu_ns":..,"functions":{"name":ns,...}} on one line of standard output. */
static inline void print_truth(const struct truth *truths, size_t count)
{
	printf("{\"process_cpu_ns\":%llu,\"functions\":{", (unsigned long long)process_cpu_ns());
	for (size_t i = 0; i < count; i++)
		printf("%s\"%s\":%llu", i ? "," : "", truths[i].function,
		       (unsigned long long)truths[i].cpu_ns);
	printf("}}\n");
	fflush(stdout);
}
