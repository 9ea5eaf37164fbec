// SPDX-License-Identifier: Apache-2.0
// What the regular scan of blocked threads sends of a thread that sleeps. On the running kernel; needs root and BTF.
// Subject: bpf/switch/sweep.bpf.h

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "base/cleanup.h"
#include "tests/unit/agent/sources/switches_fixture.h"

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
#else
TEST(a_sleepers_lost_stack_is_sent_again)
{
	SKIP("its sleeper is written for x86-64");
}
#endif

RUN_TESTS(cmocka_unit_test(a_sleepers_lost_stack_is_sent_again))
