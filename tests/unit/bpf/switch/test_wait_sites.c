// SPDX-License-Identifier: Apache-2.0
// Which stack a wait gets that is not unwound: that of its own call, or none. On the running kernel; needs root and BTF.
// Subject: bpf/switch/wait_sites.bpf.h

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/test.h"

#include "base/cleanup.h"
#include "tests/unit/agent/sources/switches_fixture.h"

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

RUN_TESTS(cmocka_unit_test(waits_sampled_out_have_their_calls_stack),
	  cmocka_unit_test(caches_two_sites_in_turn),
	  cmocka_unit_test(a_call_at_many_places_leaves_others_a_site),
	  cmocka_unit_test(shedding_keeps_stacks_of_long_waits),
	  cmocka_unit_test(no_wait_has_the_stack_of_another_call))
