// SPDX-License-Identifier: Apache-2.0
// Time spent in the kernel on behalf of known functions: one reads zeros, one random bytes, one
// stays in user space. By bare system calls, so that the callers stay visible (see truth.h).
//
//   burn_kernel [--seconds S] [--seed X]

#include <fcntl.h>

#include "tests/workloads/truth.h"

enum { BLOCK_BYTES = 1 << 20 };

static char block[BLOCK_BYTES];

uint64_t read_zeros(int fd, uint64_t ns);
uint64_t read_random(uint64_t ns);
uint64_t stay_in_user_space(uint64_t ns);

NOINLINE uint64_t read_zeros(int fd, uint64_t ns)
{
	uint64_t begin = thread_cpu_ns(), now = begin;

	for (; now - begin < ns; now = thread_cpu_ns())
		bare_syscall(SYS_read, fd, (long)block, BLOCK_BYTES);
	return now - begin;
}

NOINLINE uint64_t read_random(uint64_t ns)
{
	uint64_t begin = thread_cpu_ns(), now = begin;

	for (; now - begin < ns; now = thread_cpu_ns())
		bare_syscall(SYS_getrandom, (long)block, 1 << 16, 0);
	return now - begin;
}

NOINLINE uint64_t stay_in_user_space(uint64_t ns)
{
	return burn_ns(ns);
}

int main(int argc, char **argv)
{
	struct random_source random = random_seeded(argc, argv);
	double seconds = option_number(argc, argv, "--seconds", 5);
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
	struct truth truths[] = { { "read_zeros", 0 },
				  { "read_random", 0 },
				  { "stay_in_user_space", 0 } };
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 1;
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		double choice = random_unit(&random);
		uint64_t ns = random_between(&random, 10000000, 70000000);

		if (choice < 0.4)
			truths[0].cpu_ns += read_zeros(fd, ns);
		else if (choice < 0.7)
			truths[1].cpu_ns += read_random(ns);
		else
			truths[2].cpu_ns += stay_in_user_space(ns);
	}
	print_truth(truths, 3);
	return 0;
}
