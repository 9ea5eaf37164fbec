// SPDX-License-Identifier: Apache-2.0
// All time of threads on the running kernel is accounted for: states add up to the time that passed. Needs root
// and BTF.

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/sources/switches.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/agent/event_texts.h"

/* Time of one process, by kind of count. */
struct counted {
	uint32_t pid;
	const char *thread_name; // NULL: all
	uint64_t ns[SAMPLE_KIND_PAGE_FAULT];
	uint64_t with_user_stack_ns;    // of SAMPLE_KIND_OFF_CPU
	uint64_t without_stack_ns;      // off-CPU, but no stack is known
	uint32_t slots_of;              // a kind: of its intervals
	uint64_t first_slot, last_slot; // 0: none
};

struct fixture {
	struct loader *loader;
	struct switches *switches;
	struct event_log *events;
};

static bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

/* Of process @pid, or of all: 0. */
static struct fixture open_switches_of(bool raw_tracepoints, uint32_t ring_bytes, pid_t pid)
{
	const struct loader_options options = {
		.pid = pid,
		.ring_bytes = ring_bytes,
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.level = LOADER_LEVEL_FRAME_POINTER,
	};
	const struct switches_options switches_options = {
		.slot_ns = options.slot_ns,
		.raw_tracepoints = raw_tracepoints,
		.only_targets = pid != 0,
		.events = event_log_new(),
	};
	struct fixture fixture = { .events = switches_options.events };
	struct error err = { 0 };

	if (loader_open(&options, &fixture.loader, &err))
		fail_msg("loader_open: %s", err.text);
	loader_set_clock_offset(fixture.loader, clock_realtime_ns() - clock_monotonic_ns());
	if (switches_open(fixture.loader, &switches_options, &fixture.switches, &err))
		fail_msg("switches_open: %s", err.text);
	return fixture;
}

static struct fixture open_switches(bool raw_tracepoints)
{
	return open_switches_of(raw_tracepoints, 0, 0);
}

static void close_switches(struct fixture *fixture)
{
	switches_close(fixture->switches);
	loader_close(fixture->loader);
	event_log_free(fixture->events);
}

/* Weighted stacks count as the others. */
static uint32_t kind_of(const struct count_key *key)
{
	return key->kind == SAMPLE_KIND_OFF_CPU_SAMPLED       ? SAMPLE_KIND_OFF_CPU
	       : key->kind == SAMPLE_KIND_SCHED_DELAY_SAMPLED ? SAMPLE_KIND_SCHED_DELAY
							      : key->kind;
}

static bool has_stack(const struct count_key *key)
{
	return key->user.high || key->user.low || key->kernel.high || key->kernel.low;
}

static int add_one(void *context, const struct count_key *key, const struct count *count)
{
	struct counted *counted = context;
	uint32_t kind = kind_of(key);

	if (key->process.pid == counted->pid && kind < SAMPLE_KIND_PAGE_FAULT &&
	    (!counted->thread_name ||
	     !strncmp(key->thread_name, counted->thread_name, THREAD_NAME_BYTES))) {
		counted->ns[kind] += count->value;
		if ((kind == SAMPLE_KIND_OFF_CPU || kind == SAMPLE_KIND_SCHED_DELAY) &&
		    !has_stack(key))
			counted->without_stack_ns += count->value;
		if (kind == counted->slots_of) {
			uint64_t last = key->slot + key->more_slots;

			if (!counted->first_slot || key->slot < counted->first_slot)
				counted->first_slot = key->slot;
			if (last > counted->last_slot)
				counted->last_slot = last;
		}
		if (kind == SAMPLE_KIND_OFF_CPU && (key->user.high || key->user.low))
			counted->with_user_stack_ns += count->value;
	}
	return 0;
}

/* Returns when the export interval ended. */
static uint64_t drain(struct fixture *fixture, struct counted *counted)
{
	struct error err = { 0 };
	uint64_t end_ns;

	EXPECT_EQ(0, switches_sweep(fixture->switches), "sweep");
	end_ns = clock_monotonic_ns();
	if (loader_swap_counts(fixture->loader, &err) ||
	    loader_drain_counts(fixture->loader, add_one, counted, &err))
		fail_msg("drain: %s", err.text);
	return end_ns;
}

static uint64_t sum(const struct counted *counted)
{
	return counted->ns[SAMPLE_KIND_RUNNING] + counted->ns[SAMPLE_KIND_RUN_QUEUE] +
	       counted->ns[SAMPLE_KIND_BLOCKED];
}

static void sleep_ns(uint64_t ns)
{
	const struct timespec time = { ns / NS_PER_SECOND, ns % NS_PER_SECOND };

	nanosleep(&time, NULL);
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void expect_about(uint64_t wanted_ns, uint64_t ns, double percent, const char *what)
{
	double off = wanted_ns ? 100.0 * ((double)ns - (double)wanted_ns) / (double)wanted_ns : 0;

	if (off < -percent || off > percent)
		fail_msg("%s: %.3f ms, not %.3f", what, ns / 1e6, wanted_ns / 1e6);
}

/* Sleeps and works in turns, for @ns. */
static void alternate(uint64_t ns)
{
	for (uint64_t end_ns = clock_monotonic_ns() + ns; clock_monotonic_ns() < end_ns;) {
		uint64_t work_ns = clock_monotonic_ns() + 500000;

		sleep_ns(500000);
		while (clock_monotonic_ns() < work_ns)
			;
	}
}

static void *run_thread(void *seconds)
{
	prctl(PR_SET_NAME, "alternates");
	alternate(*(double *)seconds * NS_PER_SECOND);
	return NULL;
}

static void expect_all_time_is_told(bool raw_tracepoints)
{
	struct fixture fixture = open_switches(raw_tracepoints);
	struct counted counted = { .pid = getpid() };
	uint64_t begin_ns, end_ns;

	begin_ns = drain(&fixture, &counted);
	memset(counted.ns, 0, sizeof(counted.ns));
	alternate(300 * NS_PER_MS);
	sleep_ns(100 * NS_PER_MS);
	end_ns = drain(&fixture, &counted);
	expect_about(end_ns - begin_ns, sum(&counted), 2, "running + waiting + blocked");
	assert_true(counted.ns[SAMPLE_KIND_BLOCKED] > 100 * NS_PER_MS);
	assert_true(counted.ns[SAMPLE_KIND_RUNNING] > NS_PER_MS);
	close_switches(&fixture);
}

TEST(accounts_for_all_thread_time)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_all_time_is_told(false);
}

TEST(raw_tracepoints_account_for_all_time)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_all_time_is_told(true);
}

TEST(accounts_for_exited_threads)
{
	enum { THREADS = 4 };
	const double seconds = 0.3;
	pthread_t threads[THREADS];
	struct counted counted = { .pid = getpid(), .thread_name = "alternates" };

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	uint64_t begin_ns = clock_monotonic_ns();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_thread, (void *)&seconds);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	uint64_t end_ns = clock_monotonic_ns();
	drain(&fixture, &counted);
	// Each lives a little longer than it works.
	assert_true(sum(&counted) >= THREADS * seconds * NS_PER_SECOND);
	assert_true(sum(&counted) <= THREADS * (end_ns - begin_ns));
	close_switches(&fixture);
}

TEST(reports_off_cpu_time_while_blocked)
{
	struct counted counted = { 0 };
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	child = fork(); // blocks before the programs are attached
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test fail
		pause();
		_exit(0);
	}
	sleep_ns(50 * NS_PER_MS);
	counted.pid = child;
	struct fixture fixture = open_switches(false);
	fail_on_event(fixture.events);
	uint64_t begin_ns = drain(&fixture, &counted);
	memset(counted.ns, 0, sizeof(counted.ns));
	counted.with_user_stack_ns = 0;
	sleep_ns(200 * NS_PER_MS);
	uint64_t elapsed_ns = drain(&fixture, &counted) - begin_ns;
	expect_about(elapsed_ns, counted.ns[SAMPLE_KIND_BLOCKED], 10, "blocked");
	expect_about(elapsed_ns, counted.ns[SAMPLE_KIND_OFF_CPU], 10, "blocked, with a stack");
	// A pass over sleeping threads may leave some to the next pass.
	for (int i = 0; i < 100 && !counted.with_user_stack_ns; i++) {
		sleep_ns(20 * NS_PER_MS);
		drain(&fixture, &counted);
	}
	assert_true(counted.with_user_stack_ns > 0);
	// Killed, it runs once more.
	sleep_ns(100 * NS_PER_MS);
	end_child(child);
	elapsed_ns = clock_monotonic_ns() - begin_ns;
	// Its parent is notified before its last context switch, after which all is counted.
	for (int i = 0; i < 100 && sum(&counted) < 0.9 * elapsed_ns; i++) {
		sleep_ns(10 * NS_PER_MS);
		drain(&fixture, &counted);
	}
	expect_about(elapsed_ns, sum(&counted), 10, "all of it");
	close_switches(&fixture);
}

/* Two processes on one CPU that hand a byte to and fro until the other end is closed. */
static void play_ping_pong(int in, int out)
{
	char byte = 0;

	while (write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1)
		;
	_exit(0);
}

static pid_t start_ping_pong(void)
{
	cpu_set_t one;
	int to[2], fro[2];
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "ping-pong");
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (pipe(to) || pipe(fro))
		_exit(1);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		play_ping_pong(to[0], fro[1]);
	}
	play_ping_pong(fro[0], to[1]);
	return 0;
}

static uint64_t off_cpu_total(const struct counted *counted)
{
	return counted->ns[SAMPLE_KIND_BLOCKED] + counted->ns[SAMPLE_KIND_RUN_QUEUE];
}

static double sampled_share(struct fixture *fixture, uint32_t pid)
{
	struct counted counted = { .pid = pid };
	double blocked, sampled;

	drain(fixture, &(struct counted){ 0 });
	sleep_ns(700 * NS_PER_MS);
	drain(fixture, &counted);
	blocked = off_cpu_total(&counted);
	sampled = counted.ns[SAMPLE_KIND_OFF_CPU] + counted.ns[SAMPLE_KIND_SCHED_DELAY];
	print_message("sampled %.3f of %.1f ms\n", sampled / blocked, blocked / 1e6);
	return sampled / blocked;
}

/*
 * One off-CPU interval in 16 is unwound, with its weight: they add up to the totals, which are exact. On a loaded
 * machine a few long run-queue latencies are much of the time, so one export interval of several must match.
 */
TEST(sampled_off_cpu_time_matches_totals)
{
	enum { ATTEMPTS = 10 };
	double share = 0;
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	switches_set_step(fixture.switches, 2);
	child = start_ping_pong();
	for (int i = 0; i < ATTEMPTS && (share < 0.8 || share > 1.25); i++)
		share = sampled_share(&fixture, child);
	end_child(child);
	assert_true(share >= 0.8 && share <= 1.25);
	close_switches(&fixture);
}

/* Blocked time of one process, by where in user space it blocks. */
struct blocked_at {
	uint32_t pid;
	uint32_t count;
	uint64_t leaf[4];
	uint64_t ns[4];
};

static int add_blocked_at(void *context, const struct count_key *key, const struct count *count)
{
	struct blocked_at *at = context;
	uint32_t i = 0;

	if (key->process.pid != at->pid || kind_of(key) != SAMPLE_KIND_OFF_CPU ||
	    !key->user_leaf.address) // no stack
		return 0;
	while (i < at->count && at->leaf[i] != key->user_leaf.address)
		i++;
	if (i == ARRAY_SIZE(at->leaf))
		return 0;
	at->leaf[i] = key->user_leaf.address;
	at->count += i == at->count;
	at->ns[i] += count->value;
	return 0;
}

/* Of two calls, the share of the one with less time; 0: there are not two. */
static double share_of_lesser(struct fixture *fixture, uint32_t pid)
{
	struct blocked_at at = { .pid = pid };
	struct error err = { 0 };
	uint64_t less, all;

	drain(fixture, &(struct counted){ 0 });
	sleep_ns(300 * NS_PER_MS);
	EXPECT_EQ(0, switches_sweep(fixture->switches), "sweep");
	if (loader_swap_counts(fixture->loader, &err) ||
	    loader_drain_counts(fixture->loader, add_blocked_at, &at, &err))
		fail_msg("drain: %s", err.text);
	less = at.ns[0] < at.ns[1] ? at.ns[0] : at.ns[1];
	all = at.ns[0] + at.ns[1];
	print_message("%u places, %.1f of %.1f ms\n", at.count, less / 1e6, all / 1e6);
	return at.count == 2 && all ? (double)less / (double)all : 0;
}

/* A short poll after each long sleep. */
static pid_t start_two_calls(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		sleep_ns(8 * NS_PER_MS);
		poll(NULL, 0, 2);
	}
}

static bool is_right_share(double share)
{
	return share >= 0.15 && share <= 0.3;
}

/* Until each call has its share; on a busy machine a stack may be captured late. */
static bool shares_are_right(struct fixture *fixture, uint32_t pid)
{
	enum { ATTEMPTS = 20 };
	double share = 0;

	for (int i = 0; i < ATTEMPTS && !is_right_share(share); i++)
		share = share_of_lesser(fixture, pid);
	return is_right_share(share);
}

/*
 * A thread remembers the stacks of a few calls. On a busy machine those of its preemptions may push one of them out, which nothing
 * brings back while no stack is captured: so captured ones come first in each attempt.
 */
TEST(waits_sampled_out_have_their_calls_stack)
{
	enum { ATTEMPTS = 20 };
	bool before = true, after = false;
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	child = start_two_calls();
	for (int i = 0; i < ATTEMPTS && before && !after; i++) {
		switches_set_step(fixture.switches, 0);
		before = shares_are_right(&fixture, child);
		switches_set_step(fixture.switches, 7); // none is captured any more
		after = is_right_share(share_of_lesser(&fixture, child));
	}
	end_child(child);
	EXPECT_EQ(true, before, "captured");
	EXPECT_EQ(true, after, "sampled out");
	close_switches(&fixture);
}

/* While nothing is evicted each of the two is unwound a few times: when it is new, expires, or is checked. */
TEST(caches_two_sites_in_turn)
{
	uint64_t counters[COUNTER_COUNT];
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	child = start_two_calls();
	struct fixture fixture = open_switches_of(false, 0, child);
	sleep_ns(500 * NS_PER_MS);
	loader_read_counters(fixture.loader, counters);
	end_child(child);
	print_message("%" PRIu64 " hits, %" PRIu64 " unwound\n", counters[COUNTER_STACK_CACHE_HITS],
		      counters[COUNTER_OFF_CPU_UNWOUND]);
	assert_true(counters[COUNTER_STACK_CACHE_HITS] > 2 * counters[COUNTER_OFF_CPU_UNWOUND]);
	close_switches(&fixture);
}

static volatile sig_atomic_t changes_call;

static void change_call(int signal)
{
	(void)signal;
	changes_call = 1;
}

/* Sleeps @ms at a time, until SIGUSR1 in one system call, then in another. */
static pid_t start_changing_calls(int ms)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGUSR1, change_call);
	while (!changes_call)
		sleep_ns((uint64_t)ms * NS_PER_MS);
	for (;;)
		poll(NULL, 0, ms);
}

/* Of 15 intervals a second each is worth its stack, whatever becomes of a thousand shorter ones. */
TEST(shedding_keeps_stacks_of_long_waits)
{
	uint64_t before[COUNTER_COUNT], after[COUNTER_COUNT];

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	pid_t child = start_changing_calls(70);
	struct fixture fixture = open_switches_of(false, 0, child);
	switches_set_step(fixture.switches, 3); // one in 64
	sleep_ns(200 * NS_PER_MS);
	loader_read_counters(fixture.loader, before);
	sleep_ns(1000 * NS_PER_MS);
	loader_read_counters(fixture.loader, after);
	end_child(child);

	uint64_t kept = after[COUNTER_STACK_CACHE_HITS] - before[COUNTER_STACK_CACHE_HITS] +
			after[COUNTER_OFF_CPU_UNWOUND] - before[COUNTER_OFF_CPU_UNWOUND];
	print_message("kept %" PRIu64 "\n", kept);
	assert_true(kept >= 5);
	close_switches(&fixture);
}

TEST(no_wait_has_the_stack_of_another_call)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	pid_t child = start_changing_calls(3);
	struct fixture fixture = open_switches(false);
	sleep_ns(200 * NS_PER_MS); // its stack in nanosleep() is known
	switches_set_step(fixture.switches, 7);
	kill(child, SIGUSR1);
	sleep_ns(50 * NS_PER_MS);
	drain(&fixture, &(struct counted){ 0 });
	sleep_ns(300 * NS_PER_MS);
	struct counted counted = { .pid = (uint32_t)child };
	drain(&fixture, &counted);
	end_child(child);
	print_message("%.1f of %.1f ms without a stack\n", counted.without_stack_ns / 1e6,
		      counted.ns[SAMPLE_KIND_OFF_CPU] / 1e6);
	assert_true(counted.without_stack_ns > counted.ns[SAMPLE_KIND_OFF_CPU] * 8 / 10);
	assert_true(counted.ns[SAMPLE_KIND_OFF_CPU] > 200 * NS_PER_MS);
	close_switches(&fixture);
}

static void poll_below(int depth)
{
	if (depth)
		poll_below(depth - 1);
	else
		poll(NULL, 0, 2);
}

/* One call at one place, and one at more places than are cached. */
static pid_t start_many_places(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		sleep_ns(3 * NS_PER_MS);
		for (int depth = 0; depth < 4; depth++)
			poll_below(depth);
	}
}

TEST(a_call_at_many_places_leaves_others_a_site)
{
	enum { ATTEMPTS = 6 };
	double share = 1;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	pid_t child = start_many_places();
	for (int i = 0; i < ATTEMPTS && share > 0.15; i++) {
		switches_set_step(fixture.switches, 0);
		sleep_ns(100 * NS_PER_MS);
		switches_set_step(fixture.switches, 7);
		share = share_of_lesser(&fixture, (uint32_t)child);
	}
	end_child(child);
	assert_true(share > 0.15);
	close_switches(&fixture);
}

#if defined(__x86_64__)
/* Sleeps with a stack of one frame: by frame pointers it is complete. */
static pid_t start_sleeping(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		long number = SYS_pause;

		asm volatile("push %%rbp\n\txor %%ebp, %%ebp\n\tsyscall\n\tpop %%rbp"
			     : "+a"(number)
			     :
			     : "rcx", "r11", "memory");
	}
}

/* The user stacks that arrived, and those that a process's blocked time has. */
struct arrivals {
	uint32_t pid;
	struct stack_hash arrived[4096];
	uint32_t arrived_count;
	uint64_t blocked_ns, lost_ns;
};

static void add_arrival(void *context, const struct stack_record *record)
{
	struct arrivals *arrivals = context;

	if (arrivals->arrived_count < ARRAY_SIZE(arrivals->arrived))
		arrivals->arrived[arrivals->arrived_count++] = record->trace.hash;
}

static void ignore_process(void *context, const struct process_record *record)
{
	(void)context;
	(void)record;
}

static int add_blocked(void *context, const struct count_key *key, const struct count *count)
{
	struct arrivals *arrivals = context;
	const struct stack_hash *parts[] = { &key->user, &key->kernel };

	if (key->process.pid != arrivals->pid || kind_of(key) != SAMPLE_KIND_OFF_CPU)
		return 0;
	arrivals->blocked_ns += count->value;
	for (size_t part = 0; part < ARRAY_SIZE(parts); part++) {
		bool has_arrived = false;

		for (uint32_t i = 0; i < arrivals->arrived_count; i++)
			has_arrived |=
				!memcmp(&arrivals->arrived[i], parts[part], sizeof(*parts[part]));
		arrivals->lost_ns += has_arrived ? 0 : count->value;
	}
	return 0;
}

/* The ring is full when it falls asleep, and nothing wakes it afterwards. */
TEST(a_sleepers_lost_stack_is_sent_again)
{
	enum { ATTEMPTS = 40, FILL = 200 };
	static struct arrivals arrivals;
	struct record_handlers handlers = { .stack = add_arrival,
					    .process = ignore_process,
					    .context = &arrivals };
	struct error err = { 0 };

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches_of(false, 4096, 0);
	for (int i = 0; i < FILL; i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	}
	arrivals = (struct arrivals){ .pid = (uint32_t)start_sleeping() };
	sleep_ns(50 * NS_PER_MS);
	for (int i = 0; i < ATTEMPTS && (!arrivals.blocked_ns || arrivals.lost_ns); i++) {
		arrivals.blocked_ns = arrivals.lost_ns = 0;
		sleep_ns(50 * NS_PER_MS);
		EXPECT_EQ(0, switches_sweep(fixture.switches), "sweep");
		EXPECT_EQ(0, loader_read_records(fixture.loader, &handlers, &err), "records");
		if (loader_swap_counts(fixture.loader, &err) ||
		    loader_drain_counts(fixture.loader, add_blocked, &arrivals, &err))
			fail_msg("drain: %s", err.text);
	}
	kill((pid_t)arrivals.pid, SIGKILL);
	waitpid((pid_t)arrivals.pid, NULL, 0);
	assert_true(arrivals.blocked_ns > 0);
	EXPECT_EQ(0, arrivals.lost_ns, "both parts of its stack have arrived");
	close_switches(&fixture);
}
#endif

/* Blocks a thousand times a second. */
static pid_t start_napping(void)
{
	pid_t child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		sleep_ns(NS_PER_MS);
}

static uint64_t with_stacks(const struct counted *counted)
{
	return counted->ns[SAMPLE_KIND_OFF_CPU] + counted->ns[SAMPLE_KIND_SCHED_DELAY] -
	       counted->without_stack_ns;
}

/* On a busy machine an off-CPU interval may last for some export intervals. */
static void expect_intervals(struct fixture *fixture, pid_t pid, bool has_stacks, const char *what)
{
	enum { ATTEMPTS = 20 };

	for (int i = 0; i < ATTEMPTS; i++) {
		struct counted counted = { .pid = pid };

		sleep_ns(100 * NS_PER_MS);
		drain(fixture, &counted);
		if ((with_stacks(&counted) != 0) != has_stacks || sum(&counted) <= 50 * NS_PER_MS)
			continue;
		if (!has_stacks)
			expect_about(off_cpu_total(&counted), counted.without_stack_ns, 1,
				     "without a stack");
		return;
	}
	fail_msg("%s: in none of %d windows", what, ATTEMPTS);
}

TEST(a_process_without_stacks_keeps_totals)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	pid_t child = start_napping(), other = start_napping();

	EXPECT_EQ(0, switches_set_process(fixture.switches, child, false), "off");
	EXPECT_EQ(-EEXIST, switches_set_process(fixture.switches, child, false), "twice");
	EXPECT_EQ(-ENOENT, switches_set_process(fixture.switches, other, true), "it was not off");
	expect_intervals(&fixture, child, false, "totals without stacks");
	expect_intervals(&fixture, other, true, "another process");
	EXPECT_EQ(0, switches_set_process(fixture.switches, child, true), "on again");
	expect_intervals(&fixture, child, true, "stacks again");
	kill(child, SIGKILL);
	kill(other, SIGKILL);
	waitpid(child, NULL, 0);
	waitpid(other, NULL, 0);
	close_switches(&fixture);
}

TEST(totals_cover_no_slot_twice)
{
	struct counted first = { .pid = getpid(), .slots_of = SAMPLE_KIND_RUNNING }, second = first;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	alternate(100 * NS_PER_MS);
	drain(&fixture, &first);
	alternate(100 * NS_PER_MS);
	drain(&fixture, &second);
	EXPECT_EQ(first.last_slot + 1, second.first_slot, "the next begins where the one ended");
	assert_true(second.last_slot >= second.first_slot + 3);
	close_switches(&fixture);
}

TEST(off_cpu_time_covers_no_slot_twice)
{
	enum { WINDOWS = 4 };
	pid_t child;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	sleep_ns(50 * NS_PER_MS);
	struct fixture fixture = open_switches(false);
	for (uint64_t i = 0, before = 0; i < WINDOWS; i++) {
		struct counted counted = { .pid = child, .slots_of = SAMPLE_KIND_OFF_CPU };

		sleep_ns(100 * NS_PER_MS);
		drain(&fixture, &counted);
		if (before)
			EXPECT_EQ(before + 1, counted.first_slot,
				  "it begins where the one before ended");
		assert_true(counted.last_slot >= counted.first_slot + 3);
		before = counted.last_slot;
	}
	end_child(child);
	close_switches(&fixture);
}

TEST(accounts_for_nothing_while_stopped)
{
	struct counted counted = { .pid = getpid() };
	uint64_t begin_ns, end_ns;

	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct fixture fixture = open_switches(false);
	alternate(50 * NS_PER_MS);
	EXPECT_EQ(0, switches_set_running(fixture.switches, false), "pause");
	drain(&fixture, &counted);
	assert_true(sum(&counted) >= 50 * NS_PER_MS); // up to the pause
	alternate(400 * NS_PER_MS);
	memset(counted.ns, 0, sizeof(counted.ns));
	begin_ns = clock_monotonic_ns();
	EXPECT_EQ(0, switches_set_running(fixture.switches, true), "go on");
	alternate(200 * NS_PER_MS);
	sleep_ns(100 * NS_PER_MS);
	end_ns = drain(&fixture, &counted);
	assert_true(sum(&counted) >= 300 * NS_PER_MS && sum(&counted) <= end_ns - begin_ns);
	assert_true(counted.ns[SAMPLE_KIND_OFF_CPU] >= 100 * NS_PER_MS);
	close_switches(&fixture);
}

RUN_TESTS(
#if defined(__x86_64__)
	cmocka_unit_test(a_sleepers_lost_stack_is_sent_again),
#endif
	cmocka_unit_test(accounts_for_nothing_while_stopped),
	cmocka_unit_test(totals_cover_no_slot_twice),
	cmocka_unit_test(off_cpu_time_covers_no_slot_twice),
	cmocka_unit_test(sampled_off_cpu_time_matches_totals),
	cmocka_unit_test(waits_sampled_out_have_their_calls_stack),
	cmocka_unit_test(caches_two_sites_in_turn),
	cmocka_unit_test(a_call_at_many_places_leaves_others_a_site),
	cmocka_unit_test(shedding_keeps_stacks_of_long_waits),
	cmocka_unit_test(no_wait_has_the_stack_of_another_call),
	cmocka_unit_test(a_process_without_stacks_keeps_totals),
	cmocka_unit_test(accounts_for_all_thread_time),
	cmocka_unit_test(raw_tracepoints_account_for_all_time),
	cmocka_unit_test(accounts_for_exited_threads),
	cmocka_unit_test(reports_off_cpu_time_while_blocked))
