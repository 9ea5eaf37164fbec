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
#include "base/contract/label_names.h"

#define INTERVAL_NS (200 * NS_PER_MS)
#define SLOT_NS     (20 * NS_PER_MS)
#define WAITER_PID  1 // a process that does not end
#define ENDED_PID   0x7fffffff

/* What was turned. */
struct machine {
	uint32_t steps[KNOB_GOVERNED];
	uint32_t pid_off;
	uint32_t process_changes;
	uint32_t frequency_hz;
	bool off_cpu_off, off_cpu_was_off;
	uint32_t turned_anew; // with the value that it had
};

static int set_step(void *context, enum knob knob, uint32_t step)
{
	struct machine *machine = context;

	machine->turned_anew += machine->steps[knob] == step;
	machine->steps[knob] = step;
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

static int set_running(void *context, enum knob knob, bool on)
{
	struct machine *machine = context;

	if (knob != KNOB_OFF_CPU)
		fail_msg("page faults do not matter");
	machine->off_cpu_off = !on;
	machine->off_cpu_was_off |= !on;
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
	char changes[16384]; // exported: "knob step" lines
	char shedding[256];  // steps that were active in the last interval
	uint64_t shedding_ns;
	uint64_t program_ns, agent_ns; // exported overhead
};

static void log_events(struct run *run)
{
	const char *event;

	while ((event = next_event_text(run->events))) {
		strncat(run->log, event, sizeof(run->log) - strlen(run->log) - 1);
		strncat(run->log, "\n", sizeof(run->log) - strlen(run->log) - 1);
	}
}

static void append_setting(char *text, size_t size, const struct labels *labels)
{
	const char *pid = labels_get(labels, LABEL_PID);
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s %s%s%s\n", labels_get(labels, LABEL_KNOB),
		 labels_get(labels, LABEL_STEP), pid ? " " : "", pid ? pid : "");
}

static void read_sample(struct run *run, const struct profile *profile, const struct sample *sample)
{
	const struct series *series = &profile->series[sample->series];
	const char *type = profile_string(profile, series->type);
	const char *program = labels_get(&series->labels, LABEL_PROGRAM);

	EXPECT_STR("cairn-agent", labels_get(&series->labels, LABEL_SERVICE), "service");
	EXPECT_STR("test", labels_get(&series->labels, "env"), "--label");
	if (strcmp(PROFILE_TYPE_SHEDDING, type) == 0) {
		append_setting(run->shedding, sizeof(run->shedding), &series->labels);
		run->shedding_ns = (uint64_t)sample->value;
		return;
	}
	if (strcmp(PROFILE_TYPE_SHEDDING_CHANGES, type) == 0) {
		append_setting(run->changes, sizeof(run->changes), &series->labels);
		return;
	}
	EXPECT_STR(PROFILE_TYPE_OVERHEAD, type, "type");
	if (strcmp(program, "switch_threads") == 0)
		run->program_ns += sample->value;
	else if (strncmp(program, "agent", 5) == 0)
		run->agent_ns += sample->value;
	if ((sample->slot + sample->more_slots) * SLOT_NS > profile->to_ns)
		fail_msg("a sample after the interval's end");
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
	run->shedding[0] = 0;
	for (uint32_t i = 0; i < interval.profile->sample_count; i++)
		read_sample(run, interval.profile, &interval.profile->samples[i]);
	export_interval_deinit(&interval);
}

static void pass(struct run *run, uint64_t ns)
{
	const struct count_key key = { .kind = SAMPLE_KIND_OFF_CPU, .process.pid = WAITER_PID };
	const struct count_key ended = { .kind = SAMPLE_KIND_OFF_CPU, .process.pid = ENDED_PID };
	const struct count count = { .samples = 100 };
	uint64_t end_ns = clock_monotonic_ns() + ns, now_ns;

	while ((now_ns = clock_monotonic_ns()) < end_ns) {
		// Of a process that is off the times are still counted.
		if (load_is_on) {
			budget_take_count(run->budget, &key, &count);
			budget_take_count(run->budget, &ended, &count);
		}
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

/* What is active in the next interval: longer than a slot, and without a decision. */
static const char *active_shedding(struct run *run)
{
	usleep(3 * SLOT_NS / 1000);
	end_window(run);
	return run->shedding;
}

TEST(sheds_load_and_restores_it)
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
		.knobs = KNOB_BIT(KNOB_OFF_CPU_UNWIND) | KNOB_BIT(KNOB_PAGE_FAULTS_UNWIND) |
			 KNOB_BIT(KNOB_PROCESS_OFF_CPU) | KNOB_BIT(KNOB_PAGE_FAULTS) |
			 KNOB_BIT(KNOB_OFF_CPU),
		.interval_ns = INTERVAL_NS,
		.labels = &labels,
		.events = run->events,
		.controls = { set_step, set_process, set_running, set_frequency, NULL,
			      &run->machine },
	};
	load_is_on = true;
	assert_int_equal(0, pthread_create(&thread, NULL, run_program, &fd));
	assert_int_equal(0, budget_open(&options, &run->budget, &err));
	run->window_ns = clock_realtime_ns();

	if (!passes_until(run, &run->machine.off_cpu_off, true, 15))
		fail_msg("off-CPU was not stopped; log:\n%s", run->log);
	if (strstr(run->log, "exceeded"))
		fail_msg("a step was left; log:\n%s", run->log);
	pass(run, 6 * INTERVAL_NS); // the program runs on: nothing helps
	EXPECT_EQ(3, run->machine.steps[KNOB_OFF_CPU_UNWIND], "stacks");
	EXPECT_EQ(0, run->machine.steps[KNOB_PAGE_FAULTS_UNWIND], "page faults do not matter");
	EXPECT_EQ(WAITER_PID, run->machine.pid_off, "the worst process");
	EXPECT_EQ(1, run->machine.process_changes, "it is switched off once");
	EXPECT_EQ(0, run->machine.frequency_hz, "nor does sampling");
	for (const char *const *word =
		     (const char *const[]){ "governor: shedding load: off-CPU stacks at 1/64, ",
					    "% of a core", "overhead budget 0.10 %",
					    "no shedding step helps", "; raise --overhead-budget",
					    NULL };
	     *word; word++) {
		if (!strstr(run->log, *word))
			fail_msg("\"%s\" is not in the log:\n%s", *word, run->log);
	}
	if (!strstr(run->changes, "off_cpu_unwind 1/64\n") ||
	    !strstr(run->changes, "overhead_budget exceeded\n") ||
	    !strstr(run->changes, "\noff_cpu off\n"))
		fail_msg("exported changes: %s", run->changes);
	if (!strstr(active_shedding(run), "off_cpu_unwind 1/64\n") ||
	    !strstr(run->shedding, "process_off_cpu off 1\n") ||
	    !strstr(run->shedding, "\noff_cpu off\n") || strstr(run->shedding, "1/4\n"))
		fail_msg("active in the last interval: %s", run->shedding);
	if (!run->shedding_ns || run->shedding_ns % SLOT_NS || run->shedding_ns > NS_PER_SECOND)
		fail_msg("for %llu ns", (unsigned long long)run->shedding_ns);
	if (run->program_ns < NS_PER_MS || run->agent_ns < NS_PER_MS)
		fail_msg("exported: %llu ns of the program, %llu of the agent",
			 (unsigned long long)run->program_ns, (unsigned long long)run->agent_ns);
	budget_read_stats(run->budget, &now);
	EXPECT_EQ(1, now.steps[KNOB_OFF_CPU], "stats");
	EXPECT_EQ(1, now.steps[KNOB_PROCESS_OFF_CPU], "stats");

	// After 300 s in the agent, 6 s here, or sooner if the whole machine switches far less.
	load_is_on = false;
	if (!passes_until(run, &run->machine.off_cpu_off, false, 20))
		fail_msg("off-CPU did not start again; log:\n%s", run->log);
	EXPECT_EQ(WAITER_PID, run->machine.pid_off, "what was off stays off");
	EXPECT_EQ(3, run->machine.steps[KNOB_OFF_CPU_UNWIND], "what was set stays so");
	EXPECT_EQ(0, run->machine.turned_anew, "the source has kept all that");
	if (strstr(active_shedding(run), "\noff_cpu off") ||
	    !strstr(run->shedding, "off_cpu_unwind 1/64\n"))
		fail_msg("then active: %s", run->shedding);
	load_ends = true;
	pthread_join(thread, NULL);
	budget_close(run->budget);
	event_log_free(run->events);
	labels_deinit(&labels);
	free(run);
}

TEST(exports_all_of_the_agents_cpu_time)
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
		.controls = { set_step, set_process, set_running, set_frequency, NULL,
			      &run->machine },
	};
	assert_int_equal(0, budget_open(&options, &run->budget, &err));
	run->window_ns = clock_realtime_ns();
	load_is_on = false;
	pass(run, 300 * NS_PER_MS);
	pass(run, 300 * NS_PER_MS);
	uint64_t cpu_ns = clock_process_cpu_ns();
	if (run->agent_ns > cpu_ns * 11 / 10 || run->agent_ns < cpu_ns * 8 / 10)
		fail_msg("%llu of %llu ns", (unsigned long long)run->agent_ns,
			 (unsigned long long)cpu_ns);
	EXPECT_STR("", run->changes, "no changes");
	budget_close(run->budget);
	event_log_free(run->events);
	labels_deinit(&labels);
	free(run);
}

TEST(boost_has_own_rate_and_budget)
{
	static const struct {
		const char *what;
		double percent, asked; // of the options, of the boost
		double budget;         // in force
	} rows[] = {
		{ "that of the boost", 2, 5, 0.05 },
		{ "its own", 2, 0, 0.02 },
		{ "four times one that is set", 2, -1, 0.08 },
	};

	for EACH (row, rows) {
		struct machine machine = { 0 };
		const struct labels labels = { 0 };
		const struct budget_options options = {
			.percent = row->percent,
			.frequency_hz = 99,
			.labels = &labels,
			.controls = { .set_frequency = set_frequency, .context = &machine },
		};
		struct error err = { 0 };
		struct budget_stats stats;
		struct budget *budget;

		assert_int_equal(0, budget_open(&options, &budget, &err));
		const struct budget_boost boost = {
			.frequency_hz = 999,
			.percent = row->asked < 0 ? budget_boost_percent(budget) : row->asked,
		};
		const struct budget_boost none = { .frequency_hz = 99 };
		budget_set_boost(budget, &boost);
		budget_read_stats(budget, &stats);
		EXPECT_EQ(999, machine.frequency_hz, row->what);
		EXPECT_EQ(999, stats.frequency_hz, row->what);
		EXPECT_EQ(1000 * row->budget, 1000 * stats.budget + 0.5, row->what);
		budget_set_boost(budget, &none);
		budget_read_stats(budget, &stats);
		EXPECT_EQ(99, machine.frequency_hz, row->what);
		EXPECT_EQ(20, 1000 * stats.budget + 0.5, row->what);
		budget_close(budget);
	}
}

RUN_TESTS(cmocka_unit_test(boost_has_own_rate_and_budget),
	  cmocka_unit_test(sheds_load_and_restores_it),
	  cmocka_unit_test(exports_all_of_the_agents_cpu_time))
