// SPDX-License-Identifier: Apache-2.0
// The budget on the running kernel: a program that is called as the one for context switches is, costs
// a part of a core, and what is then turned is written down. Needs root.

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "tests/test.h"

#include "agent/overhead/budget.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/agent/event_texts.h"

#define INTERVAL_NS (200 * NS_PER_MS)
#define SLOT_NS     (20 * NS_PER_MS)
#define WAITER_PID  1 // a process that does not end

/* What was turned. */
struct machine {
	uint32_t steps[2];
	uint32_t pid_off;
	uint32_t process_changes;
	uint32_t frequency_hz;
	bool waits_off, waits_were_off;
	uint32_t turned_anew; // with the value that it had
};

static int set_step(void *context, enum budget_lane lane, uint32_t step)
{
	struct machine *machine = context;

	machine->turned_anew += machine->steps[lane] == step;
	machine->steps[lane] = step;
	return 0;
}

static int set_process(void *context, uint32_t pid, bool on)
{
	struct machine *machine = context;

	machine->turned_anew += machine->pid_off == (on ? 0 : pid);
	machine->pid_off = on ? 0 : pid;
	machine->process_changes++;
	return 0;
}

static int set_frequency(void *context, uint32_t frequency_hz)
{
	((struct machine *)context)->frequency_hz = frequency_hz;
	return 0;
}

static int set_lane(void *context, enum budget_lane lane, bool on)
{
	struct machine *machine = context;

	if (lane != BUDGET_WAITS)
		fail_msg("page faults do not matter");
	machine->waits_off = !on;
	machine->waits_were_off |= !on;
	return 0;
}

// ---- load -----------------------------------------------------------------------------------

static atomic_bool load_is_on, load_ends;

static int load_program(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "switch_threads", "GPL", insns,
			     ARRAY_SIZE(insns), NULL);
}

static void *run_program(void *context)
{
	char packet[64] = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet, .data_size_in = sizeof(packet),
		    .repeat = 20000);

	while (!load_ends) {
		if (load_is_on)
			bpf_prog_test_run_opts(*(int *)context, &options);
		usleep(1000);
	}
	return NULL;
}

// ---- tests ----------------------------------------------------------------------------------

/* Time passes, windows end; what is logged and shown is added up. */
struct run {
	struct budget *budget;
	struct event_log *events;
	struct machine machine;
	uint64_t drain_ns;
	uint64_t window_ns; // Unix time at which the window began
	char log[16384];
	char shown[16384]; // values of the label of changes
	char held[256];    // of those in force, in the last window
	uint64_t held_ns;  // that one of them was
	uint64_t cost_ns;  // of the program, in windows
	uint64_t own_ns;
};

static void log_events(struct run *run)
{
	const char *event;

	while ((event = next_event_text(run->events))) {
		strncat(run->log, event, sizeof(run->log) - strlen(run->log) - 1);
		strncat(run->log, "\n", sizeof(run->log) - strlen(run->log) - 1);
	}
}

static void read_sample(struct run *run, const struct profile *profile, const struct sample *sample)
{
	const struct series *series = &profile->series[sample->series];
	const char *change = labels_get(&series->labels, LABEL_CHANGE);
	const char *program = labels_get(&series->labels, LABEL_PROGRAM);

	EXPECT_STR("cairn-agent", labels_get(&series->labels, LABEL_SERVICE), "service");
	EXPECT_STR("test", labels_get(&series->labels, "env"), "--label");
	if (change && strcmp(PROFILE_TYPE_SHEDDING, profile_string(profile, series->type)) == 0) {
		strncat(run->held, change, sizeof(run->held) - strlen(run->held) - 1);
		strncat(run->held, "\n", sizeof(run->held) - strlen(run->held) - 1);
		run->held_ns = (uint64_t)sample->value;
		return;
	}
	if (change) {
		EXPECT_STR(PROFILE_TYPE_SHEDDING_CHANGES, profile_string(profile, series->type),
			   "type");
		strncat(run->shown, change, sizeof(run->shown) - strlen(run->shown) - 1);
		strncat(run->shown, "\n", sizeof(run->shown) - strlen(run->shown) - 1);
		return;
	}
	EXPECT_STR(PROFILE_TYPE_OVERHEAD, profile_string(profile, series->type), "type");
	if (strcmp(program, "switch_threads") == 0)
		run->cost_ns += sample->value;
	else if (strncmp(program, "agent", 5) == 0)
		run->own_ns += sample->value;
	if ((sample->slot + sample->more_slots) * SLOT_NS > profile->to_ns)
		fail_msg("a sample after the window's end");
}

static void end_window(struct run *run)
{
	struct export_interval interval = { .profile = profile_new(SLOT_NS),
					    .slot_first = UINT64_MAX };

	interval.profile->from_ns = run->window_ns;
	run->window_ns = clock_realtime_ns();
	budget_before_drain(run->budget);
	assert_int_equal(0, budget_after_drain(run->budget, &interval));
	interval.profile->to_ns = run->window_ns;
	run->held[0] = 0;
	for (uint32_t i = 0; i < interval.profile->sample_count; i++)
		read_sample(run, interval.profile, &interval.profile->samples[i]);
	export_interval_deinit(&interval);
}

static void pass(struct run *run, uint64_t ns)
{
	const struct count_key key = { .kind = SAMPLE_KIND_OFF_CPU, .process.pid = WAITER_PID };
	const struct count count = { .samples = 100 };
	uint64_t end_ns = clock_monotonic_ns() + ns, now_ns;

	while ((now_ns = clock_monotonic_ns()) < end_ns) {
		if (load_is_on && !run->machine.pid_off)
			budget_take_count(run->budget, &key, &count);
		budget_tick(run->budget, now_ns);
		log_events(run);
		if (now_ns >= run->drain_ns) {
			run->drain_ns = now_ns + 500 * NS_PER_MS;
			end_window(run);
		}
		usleep(5000);
	}
	end_window(run);
}

static bool passes_until(struct run *run, const bool *condition, bool wanted, uint64_t seconds)
{
	uint64_t end_ns = clock_monotonic_ns() + seconds * NS_PER_SECOND;

	while (*condition != wanted && clock_monotonic_ns() < end_ns)
		pass(run, INTERVAL_NS / 2);
	return *condition == wanted;
}

/* What the next window has in force: it is longer than a slot, and nothing is decided meanwhile. */
static const char *in_force(struct run *run)
{
	usleep(3 * SLOT_NS / 1000);
	end_window(run);
	return run->held;
}

TEST(what_costs_too_much_is_turned_down_told_and_given_up)
{
	_cleanup_close_ int fd = load_program(), stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct run *run = calloc(1, sizeof(*run));
	struct labels labels = { 0 };
	struct budget_stats now;
	struct error err;
	pthread_t thread;

	if (fd < 0 || stats < 0)
		SKIP("the kernel lets us load no program, or has no statistics");
	labels_set(&labels, "env", "test");
	run->events = event_log_new();
	const struct budget_options options = {
		.percent = 0.1,
		.frequency_hz = 99,
		.stacks = true,
		.faults = true,
		.processes = true,
		.waits = true,
		.interval_ns = INTERVAL_NS,
		.labels = &labels,
		.events = run->events,
		.controls = { set_step, set_process, set_lane, set_frequency, NULL, &run->machine },
	};
	load_is_on = true;
	assert_int_equal(0, pthread_create(&thread, NULL, run_program, &fd));
	assert_int_equal(0, budget_open(&options, &run->budget, &err));
	run->window_ns = clock_realtime_ns();

	if (!passes_until(run, &run->machine.waits_off, true, 15))
		fail_msg("the waits were not given up; log:\n%s", run->log);
	EXPECT_EQ(3, run->machine.steps[BUDGET_WAITS], "stacks");
	EXPECT_EQ(0, run->machine.steps[BUDGET_FAULTS], "page faults do not matter");
	EXPECT_EQ(WAITER_PID, run->machine.pid_off, "the worst process");
	EXPECT_EQ(0, run->machine.frequency_hz, "nor does sampling");
	for (const char *const *word =
		     (const char *const[]){ "governor: stacks of waits at 1/4", "% of a core",
					    "budget is 0.10 %", "nothing is left", NULL };
	     *word; word++) {
		if (!strstr(run->log, *word))
			fail_msg("\"%s\" is not in the log:\n%s", *word, run->log);
	}
	if (!strstr(run->shown, "stacks of waits at 1/64\n") ||
	    !strstr(run->shown, "cost above the budget\n") ||
	    !strstr(run->shown, "wall clock and waits off\n"))
		fail_msg("the windows have only: %s", run->shown);
	if (!strstr(in_force(run), "stacks of waits at 1/64\n") ||
	    !strstr(run->held, " (1) off\n") || !strstr(run->held, "wall clock and waits off\n") ||
	    strstr(run->held, "1/4\n"))
		fail_msg("the last window has in force: %s", run->held);
	if (!run->held_ns || run->held_ns % SLOT_NS || run->held_ns > NS_PER_SECOND)
		fail_msg("for %llu ns", (unsigned long long)run->held_ns);
	if (run->cost_ns < NS_PER_MS || run->own_ns < NS_PER_MS)
		fail_msg("%llu ns of the program, %llu of the agent are in windows",
			 (unsigned long long)run->cost_ns, (unsigned long long)run->own_ns);
	budget_read_stats(run->budget, &now);
	EXPECT_EQ(true, now.waits_off, "stats");
	EXPECT_EQ(1, now.processes_off, "stats");

	// 300 s in the agent, 6 s here.
	load_is_on = false;
	if (!passes_until(run, &run->machine.waits_off, false, 20))
		fail_msg("the waits did not come again; log:\n%s", run->log);
	EXPECT_EQ(WAITER_PID, run->machine.pid_off, "what was off stays off");
	EXPECT_EQ(3, run->machine.steps[BUDGET_WAITS], "what was set stays so");
	EXPECT_EQ(0, run->machine.turned_anew, "the lane has kept all that");
	if (strstr(in_force(run), "wall clock") || !strstr(run->held, "stacks of waits at 1/64\n"))
		fail_msg("then it has in force: %s", run->held);
	load_ends = true;
	pthread_join(thread, NULL);
	budget_close(run->budget);
	event_log_free(run->events);
	labels_deinit(&labels);
	free(run);
}

TEST(windows_have_all_of_the_agents_own_time)
{
	struct run *run = calloc(1, sizeof(*run));
	struct error err;
	struct labels labels = { 0 };

	labels_set(&labels, "env", "test");
	run->events = event_log_new();
	const struct budget_options options = {
		.frequency_hz = 99,
		.labels = &labels,
		.events = run->events,
		.controls = { set_step, set_process, set_lane, set_frequency, NULL, &run->machine },
	};
	assert_int_equal(0, budget_open(&options, &run->budget, &err));
	run->window_ns = clock_realtime_ns();
	load_is_on = false;
	pass(run, 300 * NS_PER_MS);
	pass(run, 300 * NS_PER_MS);
	uint64_t cpu_ns = clock_process_cpu_ns();
	if (run->own_ns > cpu_ns * 11 / 10 || run->own_ns < cpu_ns * 8 / 10)
		fail_msg("%llu of %llu ns", (unsigned long long)run->own_ns,
			 (unsigned long long)cpu_ns);
	EXPECT_STR("", run->shown, "no changes");
	budget_close(run->budget);
	event_log_free(run->events);
	labels_deinit(&labels);
	free(run);
}

RUN_TESTS(cmocka_unit_test(what_costs_too_much_is_turned_down_told_and_given_up),
	  cmocka_unit_test(windows_have_all_of_the_agents_own_time))
