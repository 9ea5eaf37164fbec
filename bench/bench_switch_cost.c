// SPDX-License-Identifier: Apache-2.0
// What a context switch costs with the wall clock on: two threads hand a byte to and fro on one
// CPU, at a real-time priority, in short windows without any program, with one that does nothing,
// and with ours. By CPU time, and of many windows the fastest: others on the machine only ever make
// one longer.
//
//     bench_switch_cost [ROUNDS [WORK_NS]]

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "agent/bpf/loader.h"
#include "agent/sources/switches.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { ROUNDS = 40, ROUNDS_MAX = 200, WINDOW_MS = 20, SLOT_NS = 20000000, COUNTS_MAX = 65536 };

/* Reported by the two threads, in memory that is shared with them. */
struct report {
	_Atomic uint64_t turns;
	_Atomic uint64_t cpu_ns; // of both threads, at the last turn
};

static struct report *report;
static int there[2], back[2];
static long work_loops;

static __attribute__((noinline)) void work(void)
{
	for (long i = 0; i < work_loops; i++)
		__asm__ volatile("" : "+r"(i));
}

static void calibrate(double work_ns)
{
	uint64_t begin_ns = clock_monotonic_ns();

	work_loops = 20000000;
	work();
	work_loops =
		(long)(work_ns * (double)work_loops / (double)(clock_monotonic_ns() - begin_ns));
}

static void *pong(void *context)
{
	char byte;

	(void)context;
	while (read(there[0], &byte, 1) == 1) {
		work();
		if (write(back[1], &byte, 1) != 1)
			break;
	}
	return NULL;
}

static void ping(void)
{
	struct timespec spent;
	char byte = 0;

	for (uint64_t turns = 1;; turns++) {
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return;
		work();
		if (turns % 64)
			continue;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
		report->cpu_ns = (uint64_t)spent.tv_sec * NS_PER_SECOND + (uint64_t)spent.tv_nsec;
		report->turns = turns;
	}
}

static void run_pair(double work_ns)
{
	struct sched_param priority = { .sched_priority = 1 };
	pthread_t thread;
	cpu_set_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	calibrate(work_ns);
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) ||
	    sched_setscheduler(0, SCHED_FIFO, &priority) || pipe(there) || pipe(back) ||
	    pthread_create(&thread, NULL, pong, NULL))
		_exit(1);
	ping();
	_exit(0);
}

/* CPU time of a turn, which is two switches; negative if there was none. */
static double window_ns(void)
{
	const struct timespec length = { .tv_nsec = WINDOW_MS * 1000000L };
	uint64_t turns = report->turns, cpu_ns = report->cpu_ns;

	nanosleep(&length, NULL);
	turns = report->turns - turns;
	return turns ? (double)(report->cpu_ns - cpu_ns) / (double)turns / 2 : -1;
}

/* Attached to the tracepoint; a link's descriptor or a negative errno. */
static int attach_nothing(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = id > 0 ? (uint32_t)id : 0);
	_cleanup_close_ int program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "nothing", "GPL", insns,
						    ARRAY_SIZE(insns), &options);
	int link;

	if (program < 0)
		return -errno;
	link = bpf_raw_tracepoint_open(NULL, program);
	return link < 0 ? -errno : link;
}

enum what { WITHOUT, NOTHING, OURS, WHATS };

static const char *const what_names[WHATS] = { "without", "a program that does nothing", "ours" };

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double window_with(enum what what, struct switches *switches)
{
	_cleanup_close_ int link = what == NOTHING ? attach_nothing() : -1;
	double ns;

	if (what == OURS && switches_set_running(switches, true))
		return -1;
	ns = window_ns();
	if (what == OURS)
		switches_set_running(switches, false);
	return ns;
}

static void print_rounds(double (*ns)[WHATS], int rounds)
{
	double of_one[WHATS][ROUNDS_MAX], kept[WHATS][ROUNDS_MAX];

	for (int i = 0; i < rounds; i++)
		for (int what = 0; what < WHATS; what++) {
			of_one[what][i] = ns[i][what];
			kept[what][i] = ns[i][WITHOUT] / ns[i][what];
		}
	for (int what = 0; what < WHATS; what++) {
		qsort(of_one[what], (size_t)rounds, sizeof(double), compare_doubles);
		qsort(kept[what], (size_t)rounds, sizeof(double), compare_doubles);
		printf("%-28s CPU a switch: fastest %6.0f ns, median %6.0f ns; kept, median of "
		       "pairs %.3f; "
		       "of the fastest %.3f\n",
		       what_names[what], of_one[what][0], of_one[what][rounds / 2],
		       kept[what][rounds / 2], of_one[WITHOUT][0] / of_one[what][0]);
	}
}

static int measure(struct switches *switches, int rounds)
{
	double(*ns)[WHATS] = calloc((size_t)rounds, sizeof(*ns));
	int good = 0;

	if (!ns)
		return -ENOMEM;
	window_ns();
	for (int i = 0; i < rounds; i++) {
		bool is_good = true;

		for (int what = 0; what < WHATS; what++) {
			ns[good][what] = window_with(what, switches);
			is_good &= ns[good][what] > 0;
		}
		good += is_good;
	}
	if (good)
		print_rounds(ns, good);
	free(ns);
	return good ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	const struct loader_options options = { .slot_ns = SLOT_NS,
						.counts_max = COUNTS_MAX,
						.waits = true };
	const struct switches_options wanted = { .slot_ns = SLOT_NS };
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
	struct error err = { 0 };
	struct loader *loader = NULL;
	struct switches *switches = NULL;
	pid_t pair;
	int rc;

	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (report == MAP_FAILED)
		return 1;
	rc = loader_open(&options, &loader, &err);
	if (!rc)
		rc = switches_open(loader, &wanted, &switches, &err);
	if (rc) {
		fprintf(stderr, "bench_switch_cost: %s\n", err.text);
		return 1;
	}
	switches_set_running(switches, false);
	pair = fork();
	if (!pair)
		run_pair(argc > 2 ? atof(argv[2]) : 0);
	rc = pair < 0 ? -errno
		      : measure(switches, rounds > 0 && rounds < ROUNDS_MAX ? rounds : ROUNDS);
	if (pair > 0) {
		kill(pair, SIGKILL);
		waitpid(pair, NULL, 0);
	}
	switches_close(switches);
	loader_close(loader);
	if (rc)
		fprintf(stderr, "bench_switch_cost: %s\n", strerror(-rc));
	return rc ? 1 : 0;
}
