// SPDX-License-Identifier: Apache-2.0
// What the kernel's BPF statistics cost: a program that does nothing, run many times with and without
// them, in turns. agent/overhead/bpf_cost.c keeps them off most of the time because of this.

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { REPEATS = 2000000, PAIRS = 15, SWITCHES = 200 };

#define STATS_SYSCTL "/proc/sys/kernel/bpf_stats_enabled"

static int load_program(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "nothing", "GPL", insns,
			     ARRAY_SIZE(insns), NULL);
}

static double run_once_ns(int program_fd)
{
	char packet[64] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet),
		    .repeat = REPEATS);
	uint64_t begin_ns = clock_monotonic_ns();

	if (bpf_prog_test_run_opts(program_fd, &options))
		return -1;
	return (double)(clock_monotonic_ns() - begin_ns) / REPEATS;
}

static bool are_on_already(void)
{
	_cleanup_fclose_ FILE *file = fopen(STATS_SYSCTL, "re");
	int value = 0;

	return file && fscanf(file, "%d", &value) == 1 && value;
}

static double lowest(double a, double b)
{
	return b < a ? b : a;
}

// Others on the machine only ever make a run longer: the fastest of many is the cost.
static int compare(int program_fd)
{
	double with = 1e9, without = 1e9;

	for (int i = 0; i < PAIRS; i++) {
		without = lowest(without, run_once_ns(program_fd));
		_cleanup_close_ int stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		if (stats_fd < 0)
			return -errno;
		with = lowest(with, run_once_ns(program_fd));
	}
	printf("a run without statistics %.1f ns, with statistics %.1f ns: they cost %.1f ns\n",
	       without, with, with - without);
	return 0;
}

static int time_switching(void)
{
	uint64_t begin_ns = clock_monotonic_ns();

	for (int i = 0; i < SWITCHES; i++) {
		_cleanup_close_ int stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		if (stats_fd < 0)
			return -errno;
	}
	printf("switching them on and off again takes %.0f us\n",
	       (double)(clock_monotonic_ns() - begin_ns) / SWITCHES / NS_PER_US);
	return 0;
}

int main(void)
{
	_cleanup_close_ int program_fd = load_program();

	if (program_fd < 0) {
		fprintf(stderr, "bench_bpf_stats: the program is refused: %s\n", strerror(errno));
		return 1;
	}
	if (are_on_already()) {
		puts("bench_bpf_stats: " STATS_SYSCTL " is 1: there is nothing to compare with");
		return 0;
	}
	int rc = compare(program_fd);
	if (!rc)
		rc = time_switching();
	if (rc)
		fprintf(stderr, "bench_bpf_stats: %s\n", strerror(-rc));
	return rc ? 1 : 0;
}
