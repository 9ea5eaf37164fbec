// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/budget.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/overhead/bpf_cost.h"
#include "agent/overhead/cost_estimate.h"
#include "agent/overhead/governor.h"
#include "agent/overhead/machine_events.h"
#include "agent/overhead/own_cpu.h"
#include "agent/overhead/process_tally.h"
#include "agent/sources/own_labels.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/profile_types.h"
#include "base/contract/label_names.h"

/* Between ticks of bpf_cost, unless the governor's interval is short: some 50 samples of a CPU. */
#define BPF_COST_TICK_NS (500 * NS_PER_MS)

/* A boost may cost so much more than what somebody has set as the budget. */
#define BOOST_BUDGET_FACTOR 4

enum {
	MARKS_MAX = 64,        // changes in an interval; the governor makes a few in an hour
	LINE_BYTES = 900,      // less than EVENT_TEXT_BYTES
	WARM_UP_INTERVALS = 3, // in which the agent's own work is that of starting
	SHORT_INTERVAL_ONE_IN = 2,
};

/* Programs by what they belong to; the beginnings of their names. */
static const struct {
	const char *prefix;
	size_t reading; // its field
} programs_of[] = {
	{ "sample_on_cpu", offsetof(struct governor_reading, sampling) },
	{ "switch_", offsetof(struct governor_reading, off_cpu) },
	{ "track_child", offsetof(struct governor_reading, off_cpu) },
	{ "end_thread", offsetof(struct governor_reading, off_cpu) },
	{ "thread_woken", offsetof(struct governor_reading, wakers) },
	{ "woken_", offsetof(struct governor_reading, wakers) },
	{ "page_fault", offsetof(struct governor_reading, page_faults) },
	{ "fault", offsetof(struct governor_reading, page_faults) },
};

/* A change, to be exported. */
struct mark {
	uint64_t time_ns; // Unix
	struct knob_setting setting;
};

struct budget {
	struct budget_controls controls;
	struct governor governor;
	double own_budget;   // without a boost
	double boost_budget; // with one, if nobody says
	struct governor_reading last;
	struct bpf_cost *cost;
	uint64_t cost_tick_ns;
	uint64_t cost_due_ns, decide_due_ns, decided_ns;
	uint64_t own_from_ns; // before, the agent's own work does not count
	uint64_t decided_run_ns[BPF_COST_PROGRAMS_MAX], exported_run_ns[BPF_COST_PROGRAMS_MAX];
	uint64_t decided_own_ns, exported_own_ns[OWN_CPU_COUNT];
	uint64_t decided_counters[COUNTER_COUNT];
	struct machine_events decided_events;
	struct process_tally tally;
	struct labels labels;
	uint64_t exported_ns, interval_end_ns; // Unix time: costs are exported up to here
	struct mark marks[MARKS_MAX];
	uint32_t mark_count;
	uint64_t marks_lost;
	struct event_log *events;
	bool estimated; // the kernel reports no run times: see cost_estimate.h
	struct program_cost estimate[BPF_COST_PROGRAMS_MAX];
	uint32_t cores;
};

// ---- words ----------------------------------------------------------------------------------

static void add_mark(struct budget *budget, const struct knob_setting *setting)
{
	if (budget->mark_count == MARKS_MAX) {
		budget->marks_lost++;
		return;
	}
	budget->marks[budget->mark_count++] =
		(struct mark){ .time_ns = clock_realtime_ns(), .setting = *setting };
}

// ---- overhead ------------------------------------------------------------------------------

static double *field_of(struct governor_reading *reading, const char *program)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs_of); i++) {
		if (strncmp(program, programs_of[i].prefix, strlen(programs_of[i].prefix)) == 0)
			return (double *)((char *)reading + programs_of[i].reading);
	}
	return &reading->other;
}

static const struct program_cost *read_costs(struct budget *budget, uint32_t *ret_count)
{
	uint64_t counters[COUNTER_COUNT];

	if (!budget->estimated)
		return bpf_cost_read(budget->cost, ret_count);
	budget->controls.read_counters(budget->controls.context, counters);
	*ret_count = cost_estimate(counters, budget->estimate);
	return budget->estimate;
}

static void read_programs(struct budget *budget, struct governor_reading *reading)
{
	uint32_t count;
	const struct program_cost *programs = read_costs(budget, &count);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t run_ns = programs[i].run_ns - budget->decided_run_ns[i];

		budget->decided_run_ns[i] = programs[i].run_ns;
		if (!programs[i].in_own_cpu)
			*field_of(reading, programs[i].name) +=
				(double)run_ns / (double)reading->elapsed_ns;
	}
}

static void read_unwind_part(struct budget *budget, struct governor_reading *reading)
{
	uint64_t counters[COUNTER_COUNT];

	reading->off_cpu_unwind = 0.5;
	if (!budget->controls.read_counters)
		return;
	budget->controls.read_counters(budget->controls.context, counters);
	reading->off_cpu_unwind = cost_estimate_stacks(budget->decided_counters, counters);
	memcpy(budget->decided_counters, counters, sizeof(counters));
}

static void read_own(struct budget *budget, struct governor_reading *reading, uint64_t now_ns)
{
	uint64_t own_ns = clock_process_cpu_ns();

	if (now_ns >= budget->own_from_ns)
		reading->agent =
			(double)(own_ns - budget->decided_own_ns) / (double)reading->elapsed_ns;
	budget->decided_own_ns = own_ns;
}

static double per_second(uint64_t before, uint64_t now, uint64_t elapsed_ns)
{
	return before && now > before ? (double)(now - before) * NS_PER_SECOND / (double)elapsed_ns
				      : 0;
}

static void read_machine(struct budget *budget, struct governor_reading *reading)
{
	struct machine_events *before = &budget->decided_events, now;

	machine_events_read("/proc", &now);
	reading->switches = per_second(before->switches, now.switches, reading->elapsed_ns);
	reading->faults = per_second(before->faults, now.faults, reading->elapsed_ns);
	*before = now;
}

// False: it has ended.
static bool read_process_name(uint32_t pid, char name[KNOB_COMM_BYTES])
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(name, KNOB_COMM_BYTES, file))
		return false;
	name[strcspn(name, "\n")] = 0;
	return true;
}

/*
 * The share of those that are off is what it was when they were switched off, and the others' is of the rest. If they
 * wait less now, too little is held against the others.
 */
static double share_that_is_on(const struct governor *governor)
{
	double share = 1;

	for (uint32_t i = 0; i < governor->shed.steps[KNOB_PROCESS_OFF_CPU]; i++)
		share -= governor->shed.off[i].share;
	return share > 0 ? share : 0;
}

// Their times are still counted. None of them can be switched off again.
static void leave_out_those_that_are_off(struct budget *budget)
{
	const struct load_shedding *shed = &budget->governor.shed;

	for (uint32_t i = 0; i < shed->steps[KNOB_PROCESS_OFF_CPU]; i++)
		process_tally_remove(&budget->tally, shed->off[i].pid);
}

static void read_worst(struct budget *budget, struct governor_reading *reading)
{
	struct process_count most[GOVERNOR_WORST_MAX];

	leave_out_those_that_are_off(budget);
	uint32_t count = process_tally_most(&budget->tally, most, GOVERNOR_WORST_MAX);
	double on = share_that_is_on(&budget->governor);

	for (uint32_t i = 0; i < count; i++) {
		struct governor_process *process = &reading->worst[reading->worst_count];

		if (most[i].pid == (uint32_t)getpid() || !most[i].pid ||
		    !read_process_name(most[i].pid, process->name))
			continue;
		process->pid = most[i].pid;
		process->share = on * (double)most[i].count / (double)budget->tally.sum;
		reading->worst_count++;
	}
	process_tally_clear(&budget->tally);
}

// ---- what is done about it --------------------------------------------------------------------

static int turn(struct budget *budget, const struct governor_change *change)
{
	const struct budget_controls *controls = &budget->controls;
	void *context = controls->context;

	switch (change->knob) {
	case KNOB_OFF_CPU_UNWIND:
	case KNOB_PAGE_FAULTS_UNWIND:
		return controls->set_step(context, change->knob, change->step);
	case KNOB_CPU_FREQUENCY:
		return controls->set_frequency(context, governor_frequency_hz(&budget->governor));
	case KNOB_PROCESS_OFF_CPU:
		return controls->set_process(context, change->process.pid, !change->down);
	default:
		return controls->set_running(context, change->knob, !change->down);
	}
}

static void append(char line[LINE_BYTES], const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void append(char line[LINE_BYTES], const char *format, ...)
{
	size_t used = strlen(line);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line + used, LINE_BYTES - used, format, arguments);
	va_end(arguments);
}

static void do_change(struct budget *budget, const struct governor_change *change,
		      const char *separator, char line[LINE_BYTES])
{
	char text[KNOB_SENTENCE_BYTES];
	struct knob_setting setting;
	int rc = turn(budget, change);

	governor_setting(&budget->governor, change, &setting);
	add_mark(budget, &setting);
	append(line, "%s%s", separator, knob_sentence(&setting, text));
	if (rc)
		append(line, " (failed: %s)", strerror(-rc));
}

static void do_decision(struct budget *budget, const struct governor_decision *decision)
{
	struct knob_setting setting = { .knob = KNOB_OVERHEAD_BUDGET, .step = STEP_EXCEEDED };
	char line[LINE_BYTES] = "";

	if (decision->outcome == GOVERNOR_KEEP)
		return;
	append(line, "%s", decision->what);
	for (uint32_t i = 0; i < decision->change_count; i++)
		do_change(budget, &decision->changes[i], i ? ", " : ": ", line);
	if (decision->outcome == GOVERNOR_MET)
		snprintf(setting.step, sizeof(setting.step), STEP_MET);
	if (decision->outcome != GOVERNOR_CHANGE)
		add_mark(budget, &setting);
	append(line, ": %s", decision->why);
	if (decision->outcome == GOVERNOR_EXCEEDED)
		append(line, "; raise --overhead-budget, or profile fewer processes with --pid");
	event_warn(budget->events, "governor", "%s", line);
}

// A process that has exited need not stay off.
static void drop_exited_processes(struct budget *budget)
{
	const struct governor *governor = &budget->governor;

	for (uint32_t i = governor->shed.steps[KNOB_PROCESS_OFF_CPU]; i-- > 0;) {
		struct governor_change change;
		char line[LINE_BYTES] = "process has exited", path[32];

		snprintf(path, sizeof(path), "/proc/%u", governor->shed.off[i].pid);
		if (access(path, F_OK) == 0 ||
		    !governor_drop_process(&budget->governor, governor->shed.off[i].pid, &change))
			continue;
		do_change(budget, &change, ": ", line);
		event_info(budget->events, "governor", "%s", line);
	}
}

static void decide(struct budget *budget, uint64_t now_ns)
{
	struct governor_reading reading = { .elapsed_ns = now_ns - budget->decided_ns };
	struct governor_decision decision;

	budget->decided_ns = now_ns;
	budget->decide_due_ns = now_ns + budget->governor.options.interval_ns;
	read_programs(budget, &reading);
	read_unwind_part(budget, &reading);
	read_own(budget, &reading, now_ns);
	read_machine(budget, &reading);
	read_worst(budget, &reading);
	drop_exited_processes(budget);
	governor_decide(&budget->governor, &reading, &decision);
	do_decision(budget, &decision);
	if (decision.change_count)
		bpf_cost_measure_soon(budget->cost);
	budget->last = reading;
}

// Before the first measurement, so that the two never mix.
static void estimate_instead(struct budget *budget, int rc)
{
	budget->estimated = true;
	event_warn(budget->events, "governor",
		   "overhead of BPF programs is estimated: CAP_SYS_ADMIN is missing (%s); add it "
		   "for exact figures",
		   strerror(-rc));
}

static void measure(struct budget *budget, uint64_t now_ns)
{
	budget->cost_due_ns = now_ns + budget->cost_tick_ns;
	if (!budget->estimated)
		bpf_cost_tick(budget->cost); // what fails now and then is measured the next time
}

void budget_tick(void *state, uint64_t now_ns)
{
	struct budget *budget = state;

	if (now_ns >= budget->cost_due_ns)
		measure(budget, now_ns);
	if (now_ns >= budget->decide_due_ns)
		decide(budget, now_ns);
}

// ---- export intervals -------------------------------------------------------------------------

void budget_take_count(void *state, const struct count_key *key, const struct count *count)
{
	struct budget *budget = state;

	if (key->kind == SAMPLE_KIND_OFF_CPU || key->kind == SAMPLE_KIND_SCHED_DELAY)
		process_tally_add(&budget->tally, key->process.pid, count->samples);
}

int budget_before_drain(void *state)
{
	struct budget *budget = state;

	budget->interval_end_ns = clock_realtime_ns();
	return 0;
}

/* A value of the agent itself: of @program, or of @setting. */
static int add_value(struct budget *budget, struct export_interval *interval, const char *type,
		     const char *program, const struct knob_setting *setting, uint64_t slot,
		     uint64_t last_slot, uint64_t value)
{
	struct labels labels = { 0 };
	int rc = value ? labels_copy(&budget->labels, &labels) : 0;

	if (!value || rc)
		return rc;
	rc = program ? labels_set(&labels, LABEL_PROGRAM, program)
		     : knob_set_labels(setting, &labels);
	if (!rc)
		rc = export_interval_add_value(interval, &labels, type, slot, last_slot,
					       (int64_t)value);
	labels_deinit(&labels);
	return rc;
}

static int add_overhead(struct budget *budget, struct export_interval *interval, uint64_t slot,
			uint64_t last_slot)
{
	uint32_t count;
	const struct program_cost *programs = read_costs(budget, &count);
	uint64_t own_ns[OWN_CPU_COUNT];
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		uint64_t ns = programs[i].run_ns - budget->exported_run_ns[i];

		budget->exported_run_ns[i] = programs[i].run_ns;
		if (!programs[i].in_own_cpu)
			rc = add_value(budget, interval, PROFILE_TYPE_OVERHEAD, programs[i].name,
				       NULL, slot, last_slot, ns);
	}
	own_cpu_read(own_ns);
	for (int i = 0; i < OWN_CPU_COUNT && !rc; i++) {
		// A thread that has ended takes its time along.
		uint64_t ns = own_ns[i] > budget->exported_own_ns[i]
				      ? own_ns[i] - budget->exported_own_ns[i]
				      : 0;

		budget->exported_own_ns[i] = own_ns[i];
		rc = add_value(budget, interval, PROFILE_TYPE_OVERHEAD, own_cpu_name(i), NULL, slot,
			       last_slot, ns);
	}
	return rc;
}

/* As it is when the interval ends, for all of it: changes are few, and intervals short. */
static int add_shedding(struct budget *budget, struct export_interval *interval, uint64_t slot,
			uint64_t end_slot)
{
	const struct knob_setting exceeded = { .knob = KNOB_OVERHEAD_BUDGET,
					       .step = STEP_EXCEEDED };
	struct governor_change changes[GOVERNOR_CHANGES_MAX];
	uint32_t count = governor_shedding(&budget->governor, changes);
	uint64_t ns = (end_slot - slot) * interval->profile->slot_ns;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		struct knob_setting setting;

		governor_setting(&budget->governor, &changes[i], &setting);
		rc = add_value(budget, interval, PROFILE_TYPE_SHEDDING, NULL, &setting, slot,
			       end_slot - 1, ns);
	}
	if (!rc && budget->governor.exceeded)
		rc = add_value(budget, interval, PROFILE_TYPE_SHEDDING, NULL, &exceeded, slot,
			       end_slot - 1, ns);
	return rc;
}

int budget_after_drain(void *state, struct export_interval *interval)
{
	struct budget *budget = state;
	uint64_t slot_ns = interval->profile->slot_ns;
	uint64_t from_ns = budget->exported_ns > interval->profile->from_ns
				   ? budget->exported_ns
				   : interval->profile->from_ns;
	uint64_t slot = from_ns / slot_ns, end_slot = budget->interval_end_ns / slot_ns;
	// The slot that the interval ends in belongs to the next one.
	int rc = add_overhead(budget, interval, slot, end_slot > slot ? end_slot - 1 : slot);

	if (!rc && end_slot > slot)
		rc = add_shedding(budget, interval, slot, end_slot);
	budget->exported_ns = budget->interval_end_ns;
	for (uint32_t i = 0; i < budget->mark_count && !rc; i++) {
		const struct mark *mark = &budget->marks[i];

		rc = add_value(budget, interval, PROFILE_TYPE_SHEDDING_CHANGES, NULL,
			       &mark->setting, mark->time_ns / slot_ns, mark->time_ns / slot_ns, 1);
	}
	if (!rc)
		budget->mark_count = 0;
	return rc;
}

// ---- life -----------------------------------------------------------------------------------

static void init_governor(struct budget *budget, const struct budget_options *options)
{
	struct governor_options governor = {
		.budget = options->percent > 0 ? options->percent / 100
					       : governor_default_budget(budget->cores),
		.frequency_hz = options->frequency_hz,
		.knobs = options->knobs,
		GOVERNOR_DEFAULTS,
	};

	if (options->interval_ns) {
		double factor = (double)options->interval_ns / (double)governor.interval_ns;

		governor.interval_ns = options->interval_ns;
		governor.calm_ns = (uint64_t)((double)governor.calm_ns * factor);
		governor.over_ns = (uint64_t)((double)governor.over_ns * factor);
		governor.retry_ns = (uint64_t)((double)governor.retry_ns * factor);
	}
	budget->own_budget = governor.budget;
	budget->boost_budget = options->percent > 0 ? BOOST_BUDGET_FACTOR * governor.budget
						    : governor_default_boost_budget(budget->cores);
	governor_init(&budget->governor, &governor);
}

int budget_open(const struct budget_options *options, struct budget **ret_budget, struct error *err)
{
	struct budget *budget = calloc(1, sizeof(*budget));
	uint64_t now_ns = clock_monotonic_ns();

	if (!budget)
		return error_set(err, -ENOMEM, "out of memory");
	budget->controls = options->controls;
	budget->events = options->events;
	budget->cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	init_governor(budget, options);
	uint64_t interval_ns = budget->governor.options.interval_ns;
	bool is_short = interval_ns < 2 * BPF_COST_ONE_IN * BPF_COST_TICK_NS;
	// Two measurements in each interval, at least.
	budget->cost_tick_ns =
		is_short && interval_ns / 4 < BPF_COST_TICK_NS ? interval_ns / 4 : BPF_COST_TICK_NS;
	budget->cost = bpf_cost_new(is_short ? SHORT_INTERVAL_ONE_IN : BPF_COST_ONE_IN);
	if (!budget->cost || own_labels(options->labels, SERVICE_AGENT, &budget->labels)) {
		budget_close(budget);
		return error_set(err, -ENOMEM, "out of memory");
	}
	int rc = bpf_cost_tick(budget->cost);
	if (rc && options->controls.read_counters)
		estimate_instead(budget, rc);
	budget->cost_due_ns = now_ns + budget->cost_tick_ns;
	budget->decided_ns = now_ns;
	budget->decide_due_ns = now_ns + interval_ns;
	budget->own_from_ns = now_ns + WARM_UP_INTERVALS * interval_ns + interval_ns / 2;
	budget->decided_own_ns = clock_process_cpu_ns();
	budget->exported_ns = budget->interval_end_ns = clock_realtime_ns();
	*ret_budget = budget;
	return 0;
}

void budget_close(void *state)
{
	struct budget *budget = state;

	if (!budget)
		return;
	bpf_cost_free(budget->cost);
	process_tally_deinit(&budget->tally);
	labels_deinit(&budget->labels);
	free(budget);
}

void budget_set_boost(struct budget *budget, const struct budget_boost *boost)
{
	const struct governor_target target = {
		.frequency_hz = boost->frequency_hz,
		.budget = boost->percent > 0 ? boost->percent / 100 : budget->own_budget,
		.knobs = boost->knobs,
	};

	governor_set_target(&budget->governor, &target);
	budget->controls.set_frequency(budget->controls.context,
				       governor_frequency_hz(&budget->governor));
	bpf_cost_measure_soon(budget->cost);
}

double budget_boost_percent(const struct budget *budget)
{
	return 100 * budget->boost_budget;
}

void budget_read_stats(const struct budget *budget, struct budget_stats *ret_stats)
{
	const struct governor *governor = &budget->governor;

	*ret_stats = (struct budget_stats){
		.budget = governor->options.budget,
		.cores = budget->cores,
		.overhead = governor->overhead,
		.agent = budget->last.agent,
		.level = governor_level(governor),
		.frequency_hz = governor_frequency_hz(governor),
		.changes = governor->changes,
		.changes_lost = budget->marks_lost,
		.programs_unmeasured = bpf_cost_unmeasured(budget->cost),
		.estimated = budget->estimated,
	};
	memcpy(ret_stats->steps, governor->shed.steps, sizeof(ret_stats->steps));
}
