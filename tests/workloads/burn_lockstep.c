// SPDX-License-Identifier: Apache-2.0
// Two functions in halves of a fixed period, 10.1 ms by default: a hair from a 99 Hz sampler's
// 10.101 ms, so that a sampler at a fixed rate sees the same phase for many seconds and reports
// shares that are far off.
//
//   burn_lockstep [--seconds S] [--period-us P]

#include "tests/workloads/truth.h"

uint64_t first_half(uint64_t until_ns);
uint64_t second_half(uint64_t until_ns);

/* Burn until @until_ns of wall time; returns the CPU time used. */
ALWAYS_INLINE uint64_t burn_until(uint64_t until_ns)
{
	uint64_t begin = thread_cpu_ns(), seed = begin | 1;

	while (clock_ns(CLOCK_MONOTONIC) < until_ns)
		for (int i = 0; i < 10; i++)
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	__asm__ volatile("" ::"r"(seed));
	return thread_cpu_ns() - begin;
}

NOINLINE uint64_t first_half(uint64_t until_ns)
{
	return burn_until(until_ns);
}

NOINLINE uint64_t second_half(uint64_t until_ns)
{
	return burn_until(until_ns);
}

int main(int argc, char **argv)
{
	double seconds = option_number(argc, argv, "--seconds", 5);
	uint64_t half_ns = (uint64_t)(option_number(argc, argv, "--period-us", 10100) * 500);
	uint64_t at_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t end_ns = at_ns + (uint64_t)(seconds * 1e9);
	struct truth truths[] = { { "first_half", 0 }, { "second_half", 0 } };

	// The schedule is absolute: a late half does not shift the ones that follow.
	while (at_ns < end_ns) {
		truths[0].cpu_ns += first_half(at_ns += half_ns);
		truths[1].cpu_ns += second_half(at_ns += half_ns);
	}
	print_truth(truths, 2);
	return 0;
}
