// SPDX-License-Identifier: Apache-2.0
// What programs cost, on the running kernel: a program that is run a known number of times, and the
// sampler. Needs root.

#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "tests/test.h"

#include "agent/overhead/bpf_cost.h"
#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/bpf/perf_events.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define TICK_NS (50 * NS_PER_MS)

static int load_program(const char *name)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, name, "GPL", insns, ARRAY_SIZE(insns),
			     NULL);
}

static void run_program(int fd, uint32_t times)
{
	char packet[64] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet),
		    .repeat = (int)times);

	if (bpf_prog_test_run_opts(fd, &options))
		fail_msg("the program does not run");
}

static const struct program_cost *find(struct bpf_cost *cost, const char *name)
{
	uint32_t count;
	const struct program_cost *programs = bpf_cost_read(cost, &count);

	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(programs[i].name, name) == 0)
			return &programs[i];
	}
	return NULL;
}

static void tick(struct bpf_cost *cost)
{
	int rc = bpf_cost_tick(cost);

	if (rc)
		fail_msg("bpf_cost_tick: %s", strerror(-rc));
}

static bool may_load(void)
{
	_cleanup_close_ int fd = load_program("probe");
	_cleanup_close_ int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);

	return fd >= 0 && stats >= 0;
}

// Runs @each every millisecond or so for @ns and ticks; returns how many runs there were.
static uint64_t run_and_tick(struct bpf_cost *cost, int fd, uint32_t each, uint64_t ns)
{
	uint64_t end_ns = clock_monotonic_ns() + ns, tick_ns = 0, runs = 0;

	for (uint64_t now_ns; (now_ns = clock_monotonic_ns()) < end_ns;) {
		if (now_ns >= tick_ns) {
			tick(cost);
			tick_ns = now_ns + TICK_NS;
		}
		run_program(fd, each);
		runs += each;
		usleep(1000);
	}
	return runs;
}

TEST(scales_partial_measurements)
{
	if (!may_load())
		SKIP("the kernel lets us load no program, or has no statistics");

	_cleanup_close_ int fd = load_program("nothing");
	struct bpf_cost *cost = bpf_cost_new(4);

	uint64_t runs = run_and_tick(cost, fd, 5, 2 * NS_PER_SECOND);
	const struct program_cost *nothing = find(cost, "nothing");
	if (!nothing)
		fail_msg("the program is not there");
	// A loaded machine runs it less evenly.
	if (nothing->runs < runs / 2 || nothing->runs > runs * 2)
		fail_msg("%llu runs, told %llu", (unsigned long long)runs,
			 (unsigned long long)nothing->runs);
	if (nothing->run_ns < nothing->runs || nothing->run_ns > nothing->runs * 100000)
		fail_msg("%llu runs take %llu ns", (unsigned long long)nothing->runs,
			 (unsigned long long)nothing->run_ns);
	EXPECT_EQ(false, nothing->in_own_cpu, "by its name");
	bpf_cost_free(cost);
}

TEST(unloaded_program_costs_nothing)
{
	if (!may_load())
		SKIP("the kernel lets us load no program, or has no statistics");

	int fd = load_program("unwind_snapshot");
	struct bpf_cost *cost = bpf_cost_new(1);

	run_and_tick(cost, fd, 5, 200 * NS_PER_MS);
	const struct program_cost *program = find(cost, "unwind_snapshot");
	if (!program || program->ns_per_second == 0)
		fail_msg("the program is not there");
	EXPECT_EQ(true, program->in_own_cpu, "by its name");
	close(fd);
	tick(cost);
	tick(cost);
	program = find(cost, "unwind_snapshot");
	EXPECT_EQ(0, (int)program->ns_per_second, "gone");
	if (program->runs == 0)
		fail_msg("its run time was lost");
	bpf_cost_free(cost);
}

TEST(counts_programs_beyond_the_limit)
{
	enum { BEYOND = 3 };
	int fds[BPF_COST_PROGRAMS_MAX + BEYOND];
	struct bpf_cost *cost;

	if (!may_load())
		SKIP("the kernel lets us load no program, or has no statistics");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		assert_true((fds[i] = load_program("one_of_many")) >= 0);
	assert_non_null(cost = bpf_cost_new(1));
	tick(cost);
	EXPECT_EQ(BEYOND, bpf_cost_unmeasured(cost), "at the first measurement");
	tick(cost);
	EXPECT_EQ(2 * BEYOND, bpf_cost_unmeasured(cost), "at the second one, too");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	bpf_cost_free(cost);
}

TEST(finds_programs_by_whole_name)
{
	const struct loader_options options = { .slot_ns = 20 * NS_PER_MS, .counts_max = 4096 };
	struct period_listener listener = { .fn = loader_set_period };
	struct perf_events *events = NULL;
	struct loader *loader = NULL;
	struct error err = { 0 };

	if (machine_check(&err))
		SKIP(err.text);
	if (loader_open(&options, &loader, &err))
		fail_msg("%s", err.text);
	listener.context = loader;
	if (perf_events_open(997, 0, loader_sampler_fd(loader), &listener, &events, &err))
		fail_msg("%s", err.text);

	struct bpf_cost *cost = bpf_cost_new(1);
	uint64_t from_ns = 0;
	for (int i = 0; i < 8; i++) {
		tick(cost);
		if (i == 1)
			from_ns = clock_monotonic_ns();
		usleep(TICK_NS / NS_PER_US);
	}
	const struct program_cost *sampler = find(cost, "sample_on_cpu");
	double seconds = (double)(clock_monotonic_ns() - from_ns) / NS_PER_SECOND;
	double expected = seconds * 997 * (double)sysconf(_SC_NPROCESSORS_ONLN);
	if (!sampler || sampler->runs < expected / 3 || sampler->runs > expected * 3)
		fail_msg("%llu runs, about %.0f were due",
			 sampler ? (unsigned long long)sampler->runs : 0, expected);
	if (!find(cost, "process_exit"))
		fail_msg("process_exit is not there");
	EXPECT_EQ(0, bpf_cost_unmeasured(cost), "all are measured");

	// Periods change within a second.
	perf_events_set_frequency(events, 19);
	for (int i = 0; i < 30; i++) {
		usleep(TICK_NS / NS_PER_US);
		perf_events_vary(events, clock_monotonic_ns());
		tick(cost);
	}
	double per_second = find(cost, "sample_on_cpu")->runs_per_second;
	if (per_second > 400.0 * (double)sysconf(_SC_NPROCESSORS_ONLN))
		fail_msg("%.0f runs a second at 19 Hz", per_second);
	bpf_cost_free(cost);
	perf_events_close(events);
	loader_close(loader);
}

// Iterators, and what has no place where it would run by itself.
static bool is_only_run_by_hand(const struct bpf_program *program)
{
	const char *section = bpf_program__section_name(program);

	return bpf_program__expected_attach_type(program) == BPF_TRACE_ITER ||
	       strcmp(section, "raw_tp") == 0;
}

// Returns how many of its programs are run by hand.
static int check_names(const char *path)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	const struct bpf_program *program = NULL;
	int by_hand = 0;

	if (!object)
		fail_msg("%s: %s", path, strerror(errno));
	while ((program = bpf_object__next_program(object, (struct bpf_program *)program))) {
		const char *name = bpf_program__name(program);
		char cut[BPF_OBJ_NAME_LEN];

		snprintf(cut, sizeof(cut), "%.*s", BPF_OBJ_NAME_LEN - 1, name);
		EXPECT_EQ(is_only_run_by_hand(program), bpf_cost_is_in_own_cpu(name), name);
		EXPECT_EQ(is_only_run_by_hand(program), bpf_cost_is_in_own_cpu(cut), cut);
		by_hand += is_only_run_by_hand(program);
	}
	bpf_object__close(object);
	return by_hand;
}

TEST(recognizes_programs_run_by_own_calls)
{
	char self[PATH_MAX] = "", pattern[PATH_MAX + 32];
	int by_hand = 0;
	glob_t objects;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail_msg("/proc/self/exe: %s", strerror(errno));
	snprintf(pattern, sizeof(pattern), "%s/../../../bpf/*.bpf.o", dirname(self));
	if (glob(pattern, 0, NULL, &objects))
		SKIP("the programs' objects are not beside the tests");
	for (size_t i = 0; i < objects.gl_pathc; i++)
		by_hand += check_names(objects.gl_pathv[i]);
	globfree(&objects);
	EXPECT_EQ(5, by_hand, "three of threads, one of registers, one of snapshots");
}

RUN_TESTS(cmocka_unit_test(recognizes_programs_run_by_own_calls),
	  cmocka_unit_test(scales_partial_measurements),
	  cmocka_unit_test(unloaded_program_costs_nothing),
	  cmocka_unit_test(counts_programs_beyond_the_limit),
	  cmocka_unit_test(finds_programs_by_whole_name))
