// SPDX-License-Identifier: Apache-2.0
// A sample from the BPF program to the profile, with real children. Needs root and BTF.

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/boost/boosts.h"
#include "agent/bpf/machine.h"
#include "agent/profiler.h"
#include "agent/stacks/snapshot_queue.h"
#include "base/clock.h"
#include "bpf/bpf_counters.h"
#include "base/contract/label_names.h"

static bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

static volatile uint64_t burnt;

__attribute__((noinline)) static void burn_in_a_known_function(uint64_t cpu_ns)
{
	uint64_t end_ns = clock_process_cpu_ns() + cpu_ns;

	while (clock_process_cpu_ns() < end_ns) {
		for (int i = 0; i < 100000; i++)
			burnt += i;
	}
	burnt++; // not a tail call's place
}

__attribute__((noinline)) static void call_the_burner(uint64_t cpu_ns)
{
	burn_in_a_known_function(cpu_ns);
	burnt++;
}

/* A child that burns CPU under the name @name, held until go() is called. */
struct child {
	pid_t pid;
	int go;
};

#define NAME_BYTES 16 // as the kernel keeps them

/* A name that is unique, as the test may run several times at once: @name and our pid, in @buffer. */
static const char *own_name(const char *name, char buffer[NAME_BYTES])
{
	static pid_t pid;

	if (!pid)
		pid = getpid(); // of the test, not of its children
	snprintf(buffer, NAME_BYTES, "%s-%x", name, (unsigned)pid);
	return buffer;
}

static struct child start_child(const char *name, uint64_t cpu_ns)
{
	int pipe_fds[2];
	struct child child;
	char byte, own[NAME_BYTES];

	own_name(name, own);

	assert_int_equal(0, pipe(pipe_fds));
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		close(pipe_fds[1]);
		prctl(PR_SET_NAME, own);
		// Sharing a CPU with others' load would be sampling noise in what is compared below.
		setpriority(PRIO_PROCESS, 0, -20);
		if (read(pipe_fds[0], &byte, 1) < 0)
			_exit(1);
		call_the_burner(cpu_ns);
		_exit(0);
	}
	close(pipe_fds[0]);
	child.go = pipe_fds[1];
	return child;
}

static void go(struct child *child)
{
	close(child->go);
}

static struct profiler *open_profiler(pid_t pid, uint32_t frequency_hz)
{
	struct profiler_options options = {
		.frequency_hz = frequency_hz,
		.slot_ns = 20 * NS_PER_MS,
		.pid = pid,
	};
	struct profiler *profiler = NULL;
	struct error err = { 0 };

	if (profiler_open(&options, &profiler, &err))
		fail_msg("profiler_open: %s", err.text);
	return profiler;
}

/* Until unwind tables of running processes are loaded, on a busy machine. */
#define WARM_UP_NS (2 * NS_PER_SECOND)

static uint64_t cpu_time_of(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	assert_int_equal(0, clock_getcpuclockid(pid, &clock));
	assert_int_equal(0, clock_gettime(clock, &time));
	return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static void run_for(struct profiler *profiler, uint64_t duration_ns)
{
	uint64_t end_ns = clock_monotonic_ns() + duration_ns;
	struct error err = { 0 };

	while (clock_monotonic_ns() < end_ns) {
		struct pollfd fd = { .fd = profiler_fd(profiler), .events = POLLIN };

		if (poll(&fd, 1, 50) > 0 && profiler_read(profiler, &err))
			fail_msg("profiler_read: %s", err.text);
		profiler_tick(profiler);
	}
}

/* Run the profiler's loop until the child has ended. Returns its CPU time by the kernel. */
static uint64_t run_until_exit(struct profiler *profiler, struct child *child)
{
	struct rusage usage;
	struct error err = { 0 };
	int status;

	while (wait4(child->pid, &status, WNOHANG, &usage) == 0) {
		struct pollfd fd = { .fd = profiler_fd(profiler), .events = POLLIN };

		if (poll(&fd, 1, 50) > 0 && profiler_read(profiler, &err))
			fail_msg("profiler_read: %s", err.text);
		profiler_tick(profiler);
	}
	EXPECT_EQ(0, status, "the child's end");
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_SECOND +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US;
}

static struct profile *drain(struct profiler *profiler)
{
	struct profile *profile = NULL;
	struct error err = { 0 };

	if (profiler_drain(profiler, &profile, &err))
		fail_msg("profiler_drain: %s", err.text);
	return profile;
}

static const char *frame_name(const struct profile *profile, const struct stack *stack, uint32_t at)
{
	const struct location *location =
		&profile->locations[profile->stack_locations[stack->first_location + at]];

	return location->line_count
		       ? profile_string(profile, profile->lines[location->first_line].name)
		       : "";
}

static bool stack_has(const struct profile *profile, const struct stack *stack, const char *name)
{
	for (uint32_t i = 0; i < stack->location_count; i++) {
		if (!strcmp(frame_name(profile, stack, i), name))
			return true;
	}
	return false;
}

/* Of the samples whose label @label is @value: all, or those whose stack has @function. */
static uint64_t sum_of(const struct profile *profile, const char *label, const char *value,
		       const char *function)
{
	char own[NAME_BYTES];
	uint64_t sum = 0;

	value = value ? own_name(value, own) : NULL;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		const char *found = labels_get(&profile->series[sample->series].labels, label);

		if (value && (!found || strcmp(found, value) != 0))
			continue;
		if (!function || stack_has(profile, &profile->stacks[sample->stack], function))
			sum += sample->value;
	}
	return sum;
}

static void expect_near(uint64_t expected, uint64_t actual, double share, const char *what)
{
	if (actual < expected * (1 - share) || actual > expected * (1 + share))
		fail_msg("%s: %.3f s, expected %.3f s", what, actual / 1e9, expected / 1e9);
}

TEST(finds_cpu_time_in_functions)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct child child = start_child("burner-a", WARM_UP_NS + 3 * NS_PER_SECOND);
	struct profiler *profiler = open_profiler(0, 500);
	go(&child);
	run_for(profiler, WARM_UP_NS);
	uint64_t before_ns = cpu_time_of(child.pid);
	profile_free(drain(profiler));
	uint64_t cpu_ns = ns_between(before_ns, run_until_exit(profiler, &child));
	profiler_stop(profiler);
	struct profile *profile = drain(profiler);

	expect_near(cpu_ns, sum_of(profile, LABEL_PROCESS, "burner-a", NULL), 0.05, "all of it");
	expect_near(cpu_ns, sum_of(profile, LABEL_THREAD, "burner-a", NULL), 0.05, "by thread");
	expect_near(cpu_ns, sum_of(profile, LABEL_PROCESS, "burner-a", "burn_in_a_known_function"),
		    0.06, "in the function");
	expect_near(cpu_ns, sum_of(profile, LABEL_PROCESS, "burner-a", "call_the_burner"), 0.06,
		    "in its caller");
	profile_free(profile);
	profiler_close(profiler);
}

/* Samples captured while its tables are built are unwound later. */
TEST(new_processes_have_complete_stacks)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct child child = start_child("burner-d", 180 * NS_PER_MS);
	struct profiler *profiler = open_profiler(child.pid, 99); // fewer than SNAPSHOT_BURST
	struct profiler_stats stats;

	go(&child);
	run_until_exit(profiler, &child);
	profiler_stop(profiler);
	struct profile *profile = drain(profiler);
	uint64_t all_ns = sum_of(profile, LABEL_PROCESS, "burner-d", NULL);

	profiler_read_stats(profiler, &stats);
	assert_true(stats.bpf_counters[COUNTER_SNAPSHOTS] > 0);
	assert_true(all_ns > 0);
	expect_near(all_ns, sum_of(profile, LABEL_PROCESS, "burner-d", "call_the_burner"), 0.1,
		    "in its caller");
	profile_free(profile);
	profiler_close(profiler);
}

TEST(pid_selects_a_process_and_its_children)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	// We are the target process. One child starts before that, one after.
	struct child earlier = start_child("burner-e", 300 * NS_PER_MS);
	struct profiler *profiler = open_profiler(getpid(), 499);

	go(&earlier);
	uint64_t earlier_ns = run_until_exit(profiler, &earlier);
	struct child later = start_child("burner-l", 300 * NS_PER_MS);
	go(&later);
	uint64_t later_ns = run_until_exit(profiler, &later);
	profiler_stop(profiler);
	struct profile *profile = drain(profiler);

	expect_near(earlier_ns, sum_of(profile, LABEL_THREAD, "burner-e", NULL), 0.1, "before");
	expect_near(later_ns, sum_of(profile, LABEL_THREAD, "burner-l", NULL), 0.1, "after");
	profile_free(profile);
	profiler_close(profiler);
}

TEST(pid_selects_no_other_process)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct child other = start_child("burner-o", 10 * NS_PER_SECOND);
	go(&other);
	struct child child = start_child("burner-b", 300 * NS_PER_MS);
	struct profiler *profiler = open_profiler(child.pid, 499);

	go(&child);
	uint64_t cpu_ns = run_until_exit(profiler, &child);
	profiler_stop(profiler);
	kill(other.pid, SIGKILL);
	waitpid(other.pid, NULL, 0);
	struct profile *profile = drain(profiler);

	expect_near(cpu_ns, sum_of(profile, LABEL_THREAD, "burner-b", NULL), 0.1, "the process");
	EXPECT_EQ(0, sum_of(profile, LABEL_THREAD, "burner-o", NULL), "another one");
	profile_free(profile);
	profiler_close(profiler);
}

static uint64_t samples_so_far(const struct profiler *profiler)
{
	struct profiler_stats stats;

	profiler_read_stats(profiler, &stats);
	return stats.bpf_counters[COUNTER_SAMPLES];
}

#define BOOSTED_NS (600 * NS_PER_MS)

/* What is measured of a child in BOOSTED_NS of its CPU time. */
struct boosted {
	uint64_t cpu_ns, counted_ns, samples;
	struct profiler_boost boost;
};

static struct boosted measure_boosted(struct profiler *profiler, const struct child *child,
				      const struct boost_demand *demand)
{
	struct boosted boosted;

	profiler_set_boost(profiler, demand);
	kill(child->pid, SIGSTOP);
	run_for(profiler, 1500 * NS_PER_MS); // each CPU has its new period
	kill(child->pid, SIGCONT);
	profile_free(drain(profiler));
	uint64_t cpu_ns = cpu_time_of(child->pid), samples = samples_so_far(profiler);
	while (ns_between(cpu_ns, cpu_time_of(child->pid)) < BOOSTED_NS)
		run_for(profiler, 100 * NS_PER_MS);
	struct profile *profile = drain(profiler);
	boosted.cpu_ns = ns_between(cpu_ns, cpu_time_of(child->pid));
	boosted.samples = samples_so_far(profiler) - samples;
	boosted.counted_ns = sum_of(profile, LABEL_PROCESS, "burner-x", NULL);
	profiler_read_boost(profiler, &boosted.boost);
	profile_free(profile);
	return boosted;
}

static void expect_rate(const struct boosted *boosted, double expected, const char *what)
{
	double rate = (double)boosted->samples * NS_PER_SECOND / (double)boosted->cpu_ns;

	if (rate < 0.6 * expected || rate > 1.4 * expected)
		fail_msg("%s: %.0f samples a second, expected %.0f", what, rate, expected);
	EXPECT_EQ(expected, boosted->boost.hz, what);
}

TEST(a_boost_changes_the_rate_and_no_sums)
{
	static const struct boost_demand none, faster = { .hz = 999 }, stop = { .stop = true };

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct child child = start_child("burner-x", 60 * NS_PER_SECOND);
	struct profiler *profiler = open_profiler(child.pid, 99);

	go(&child);
	run_for(profiler, WARM_UP_NS);
	const struct boosted before = measure_boosted(profiler, &child, &none);
	const struct boosted boosted = measure_boosted(profiler, &child, &faster);
	const struct boosted stopped = measure_boosted(profiler, &child, &stop);
	const struct boosted after = measure_boosted(profiler, &child, &none);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	profiler_stop(profiler);
	profiler_set_boost(profiler, &faster); // too late: nothing happens
	profiler_close(profiler);
	expect_rate(&before, 99, "before");
	expect_rate(&boosted, 999, "boosted");
	expect_near(boosted.cpu_ns, boosted.counted_ns, 0.15, "boosted");
	EXPECT_EQ(true, stopped.boost.stopped, "stopped");
	EXPECT_EQ(0, stopped.samples, "stopped");
	EXPECT_EQ(0, stopped.counted_ns, "stopped");
	expect_rate(&after, 99, "after");
}

/* Of this thread: the profiler has others. */
static uint64_t own_cpu_ns(void)
{
	struct timespec time;

	assert_int_equal(0, clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
	return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

TEST(export_intervals_neither_overlap_nor_lose)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	char name[NAME_BYTES];

	prctl(PR_SET_NAME, own_name("burner-s", name));
	struct profiler *profiler = open_profiler(0, 999);
	uint64_t sum_ns = 0, slot_before = 0, begin_ns = own_cpu_ns();
	const uint64_t waited = (SNAPSHOT_WAIT_NS + 500 * NS_PER_MS) / (20 * NS_PER_MS);
	struct profiler_stats stats;

	for (int window = 0; window < 5; window++) {
		burn_in_a_known_function(100 * NS_PER_MS);
		struct profile *profile = drain(profiler);

		assert_true(profile->from_ns < profile->to_ns);
		sum_ns += sum_of(profile, LABEL_THREAD, "burner-s", NULL);
		for (uint32_t i = 0; i < profile->sample_count; i++) {
			// Two intervals may share a slot, and a sample may wait for its process's
			// unwind tables; else time does not go back.
			assert_true(profile->samples[i].slot + waited >= slot_before);
			assert_true(profile->samples[i].slot <= profile->to_ns / profile->slot_ns);
		}
		slot_before = profile->to_ns / profile->slot_ns - 1;
		profile_free(profile);
	}
	uint64_t cpu_ns = own_cpu_ns() - begin_ns;
	profiler_stop(profiler);
	struct profile *last = drain(profiler);
	sum_ns += sum_of(last, LABEL_THREAD, "burner-s", NULL);
	profile_free(last);
	expect_near(cpu_ns, sum_ns, 0.1, "five intervals");
	profiler_read_stats(profiler, &stats);
	EXPECT_EQ(0, stats.bpf_counters[COUNTER_COUNTS_FULL], "dropped");
	EXPECT_EQ(0, stats.bpf_counters[COUNTER_RING_FULL], "dropped");
	EXPECT_EQ(0, stats.stacks_lost, "lost stacks");
	profiler_close(profiler);
}

TEST(a_late_drain_loses_nothing)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	// 4096 counts hold 2 s of two busy CPUs at 1000 Hz.
	struct profiler *profiler = open_profiler(0, 1000);
	struct child child = start_child("burner-c", 5 * NS_PER_SECOND);
	go(&child);
	uint64_t cpu_ns = run_until_exit(profiler, &child);
	profiler_stop(profiler);
	struct profile *profile = drain(profiler);
	struct profiler_stats stats;

	profiler_read_stats(profiler, &stats);
	EXPECT_EQ(0, stats.bpf_counters[COUNTER_COUNTS_FULL], "dropped");
	expect_near(cpu_ns, sum_of(profile, LABEL_THREAD, "burner-c", NULL), 0.05, "all of it");
	profile_free(profile);
	profiler_close(profiler);
}

TEST(names_the_setting_out_of_range)
{
	static const struct {
		struct profiler_options options;
		const char *named;
	} cases[] = {
		{ { .frequency_hz = 0, .slot_ns = 20 * NS_PER_MS }, "frequency" },
		{ { .frequency_hz = 1001, .slot_ns = 20 * NS_PER_MS }, "frequency" },
		{ { .frequency_hz = 99, .slot_ns = 1 }, "slot" },
		{ { .frequency_hz = 99, .slot_ns = 2 * NS_PER_SECOND }, "slot" },
		{ { .frequency_hz = 99, .slot_ns = 20 * NS_PER_MS, .pid = -3 }, "pid" },
	};

	for EACH (c, cases) {
		struct profiler *profiler = NULL;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, profiler_open(&c->options, &profiler, &err), c->named);
		assert_null(profiler);
		assert_non_null(strstr(err.text, c->named));
	}
}

RUN_TESTS(cmocka_unit_test(finds_cpu_time_in_functions),
	  cmocka_unit_test(a_boost_changes_the_rate_and_no_sums),
	  cmocka_unit_test(new_processes_have_complete_stacks),
	  cmocka_unit_test(pid_selects_a_process_and_its_children),
	  cmocka_unit_test(pid_selects_no_other_process),
	  cmocka_unit_test(export_intervals_neither_overlap_nor_lose),
	  cmocka_unit_test(a_late_drain_loses_nothing),
	  cmocka_unit_test(names_the_setting_out_of_range))
