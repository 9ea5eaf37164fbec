// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/governor.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* What a step leaves of off-CPU stacks and of page faults. */
#define STEP_RATIO 0.25
/* Steps down aim at this part of the budget, so that noise does not lead to the next one. */
#define TARGET 0.9
/* A step that saves less than this part of the excess is skipped: it would not help. */
#define WORTH 0.1
/* A last resort must save at least this part. */
#define WORTH_OFF 0.25
/* Steps up may lead up to this part of the budget. */
#define UP_LIMIT 0.8
/*
 * About half of the agent's own work follows the number of samples, unless it is far more than that
 * of the kernel programs: then it is work on new processes, which no step would save.
 */
#define AGENT_OF_SAMPLES  0.5
#define AGENT_PER_PROGRAM 2
/* What turning a process off saves: its times are still counted. */
#define PROCESS_OFF_SAVES 0.5
/* A step down so soon after a step up, in times of calm_ns: it was too early. */
#define RELAPSE_CALMS 5
/* The wait before a step up is doubled up to so many calm_ns; as long without a step down ends it. */
#define CALM_NEEDED_MAX 32
#define RETRY_MAX       12 // times retry_ns: an hour
/* The overhead of wakers is taken to fall by this at each calm reading: by half in a minute or so. */
#define WAKERS_DECAY 0.9

/* Where it can be turned. Those of KNOB_CPU_FREQUENCY follow from the frequency. */
static const uint32_t steps_max[KNOB_GOVERNED] = {
	[KNOB_WAKERS] = 1,
	[KNOB_OFF_CPU_UNWIND] = GOVERNOR_UNWIND_STEPS,
	[KNOB_PAGE_FAULTS_UNWIND] = GOVERNOR_UNWIND_STEPS,
	[KNOB_PROCESS_OFF_CPU] = GOVERNOR_PROCESSES_MAX,
	[KNOB_PAGE_FAULTS] = 1,
	[KNOB_OFF_CPU] = 1,
};

static const uint32_t lower_frequencies_hz[GOVERNOR_SAMPLING_STEPS] = { 99, 49, 25, 19 };

double governor_default_budget(uint32_t cores)
{
	double budget = cores / 8.0 / 100;

	return budget < 0.02 ? 0.02 : budget;
}

static void reset_retries(struct governor *governor)
{
	for (int knob = GOVERNOR_LADDER_END; knob < KNOB_GOVERNED; knob++)
		governor->retry_wait_ns[knob] = governor->options.retry_ns;
}

void governor_init(struct governor *governor, const struct governor_options *options)
{
	*governor = (struct governor){
		.options = *options,
		.calm_needed = options->calm_ns,
	};
	uint32_t *count = &governor->steps_max[KNOB_CPU_FREQUENCY];
	governor->frequencies[0] = options->frequency_hz;
	for (uint32_t i = 0; i < GOVERNOR_SAMPLING_STEPS; i++) {
		if (lower_frequencies_hz[i] < options->frequency_hz)
			governor->frequencies[++*count] = lower_frequencies_hz[i];
	}
	for (int knob = 0; knob < KNOB_GOVERNED; knob++) {
		if (options->knobs & KNOB_BIT(knob) && knob != KNOB_CPU_FREQUENCY)
			governor->steps_max[knob] = steps_max[knob];
	}
	reset_retries(governor);
}

uint32_t governor_level(const struct governor *governor)
{
	uint32_t level = 0;

	for (int knob = 0; knob < KNOB_GOVERNED; knob++)
		level += governor->steps[knob];
	return level;
}

uint32_t governor_shedding(const struct governor *governor,
			   struct governor_change ret_changes[GOVERNOR_CHANGES_MAX])
{
	uint32_t count = 0;

	_Static_assert(KNOB_GOVERNED + GOVERNOR_PROCESSES_MAX <= GOVERNOR_CHANGES_MAX,
		       "room for all");
	for (int knob = 0; knob < KNOB_GOVERNED; knob++) {
		uint32_t step = governor->steps[knob];
		// A step of the other knobs has those before in it.
		uint32_t reported = knob == KNOB_PROCESS_OFF_CPU ? step : step > 0;

		for (uint32_t i = 0; i < reported; i++)
			ret_changes[count++] = (struct governor_change){
				.knob = knob,
				.step = step,
				.down = true,
				.process = governor->off[i],
			};
	}
	return count;
}

uint32_t governor_frequency_hz(const struct governor *governor)
{
	return governor->frequencies[governor->steps[KNOB_CPU_FREQUENCY]];
}

bool governor_is_off(const struct governor *governor, enum knob knob)
{
	return knob >= GOVERNOR_LADDER_END && governor->steps[knob];
}

static bool is_any_off(const struct governor *governor)
{
	return governor_is_off(governor, KNOB_PAGE_FAULTS) ||
	       governor_is_off(governor, KNOB_OFF_CPU);
}

// ---- words ----------------------------------------------------------------------------------

void governor_setting(const struct governor *governor, const struct governor_change *change,
		      struct knob_setting *ret_setting)
{
	struct knob_setting setting = { .knob = change->knob };

	switch (change->knob) {
	case KNOB_OFF_CPU_UNWIND:
	case KNOB_PAGE_FAULTS_UNWIND:
		snprintf(setting.step, sizeof(setting.step), "1/%u", 1U << (2 * change->step));
		break;
	case KNOB_CPU_FREQUENCY:
		snprintf(setting.step, sizeof(setting.step), "%uHz",
			 governor->frequencies[change->step]);
		break;
	default:
		snprintf(setting.step, sizeof(setting.step), "%s",
			 change->down ? STEP_OFF : STEP_ON);
	}
	if (change->knob == KNOB_PROCESS_OFF_CPU) {
		setting.pid = change->process.pid;
		memcpy(setting.comm, change->process.name, sizeof(setting.comm));
	}
	*ret_setting = setting;
}

static void explain(const struct governor *governor, const struct governor_reading *reading,
		    const char *what, struct governor_decision *decision)
{
	decision->what = what;
	snprintf(decision->why, sizeof(decision->why),
		 "%.2f %% of a core in %.3g s (off-CPU %.2f, CPU sampling %.2f, page faults %.2f, "
		 "wakers %.2f, other BPF programs %.2f, agent process %.2f), overhead budget %.2f "
		 "%%",
		 100 * governor->overhead, (double)reading->elapsed_ns / NS_PER_SECOND,
		 100 * reading->off_cpu, 100 * reading->sampling, 100 * reading->page_faults,
		 100 * reading->wakers, 100 * reading->other, 100 * reading->agent,
		 100 * governor->options.budget);
}

// ---- what steps save ------------------------------------------------------------------------

static double programs_of(const struct governor_reading *reading)
{
	return reading->sampling + reading->off_cpu + reading->page_faults + reading->wakers +
	       reading->other;
}

static double overhead_of(const struct governor_reading *reading)
{
	return programs_of(reading) + reading->agent;
}

// A program's overhead, and the agent's with its samples.
static double with_agent(const struct governor_reading *reading, double program)
{
	double programs = programs_of(reading);
	double agent = programs > 0 ? AGENT_OF_SAMPLES * reading->agent * program / programs : 0;

	return program +
	       (agent < AGENT_PER_PROGRAM * program ? agent : AGENT_PER_PROGRAM * program);
}

static bool can_step_down(const struct governor *governor, enum knob knob,
			  const struct governor_reading *reading)
{
	return governor->steps[knob] < governor->steps_max[knob] &&
	       (knob != KNOB_PROCESS_OFF_CPU || reading->worst_count);
}

/* The part of a program's overhead that the knob's next step saves; *ret_program: which in @reading. */
static double next_step(const struct governor *governor, enum knob knob,
			struct governor_reading *reading, double **ret_program)
{
	uint32_t step = governor->steps[knob];

	*ret_program = &reading->off_cpu;
	switch (knob) {
	case KNOB_OFF_CPU_UNWIND:
		return reading->off_cpu_unwind * (1 - STEP_RATIO);
	case KNOB_WAKERS:
		*ret_program = &reading->wakers;
		return 1;
	case KNOB_PAGE_FAULTS_UNWIND:
		*ret_program = &reading->page_faults;
		return 1 - STEP_RATIO;
	case KNOB_PAGE_FAULTS:
		*ret_program = &reading->page_faults;
		return 1;
	case KNOB_CPU_FREQUENCY:
		*ret_program = &reading->sampling;
		return 1 - (double)governor->frequencies[step + 1] / governor->frequencies[step];
	case KNOB_PROCESS_OFF_CPU:
		return PROCESS_OFF_SAVES * reading->worst[0].share;
	default:
		return 1;
	}
}

static double saving_of(const struct governor *governor, enum knob knob,
			const struct governor_reading *reading)
{
	struct governor_reading copy = *reading;
	double *program, part;

	if (!can_step_down(governor, knob, reading))
		return 0;
	part = next_step(governor, knob, &copy, &program);
	return part * with_agent(reading, *program);
}

// ---- down -----------------------------------------------------------------------------------

// @expected becomes what the reading would be after the step.
static void step_down(struct governor *governor, enum knob knob, struct governor_reading *expected,
		      struct governor_decision *decision)
{
	struct governor_change change = { .knob = knob, .down = true };
	double *program, part = next_step(governor, knob, expected, &program);
	double agent = with_agent(expected, *program) - *program;

	if (knob == KNOB_WAKERS)
		governor->wakers_overhead = *program + agent;
	*program *= 1 - part;
	expected->agent -= agent * part;
	if (knob == KNOB_OFF_CPU_UNWIND)
		expected->off_cpu_unwind *= STEP_RATIO / (1 - part);
	if (knob == KNOB_PROCESS_OFF_CPU) {
		change.process = expected->worst[0];
		governor->off[governor->steps[knob]] = change.process;
		expected->worst_count--;
		memmove(&expected->worst[0], &expected->worst[1],
			expected->worst_count * sizeof(expected->worst[0]));
		for (uint32_t i = 0; i < expected->worst_count && part < 1; i++)
			expected->worst[i].share /= 1 - part;
	}
	change.step = ++governor->steps[knob];
	decision->changes[decision->change_count++] = change;
}

// The steps that lead below the budget, in the order of knobs, without those that hardly matter.
static void step_down_to_target(struct governor *governor, struct governor_reading *expected,
				struct governor_decision *decision)
{
	double target = TARGET * governor->options.budget;
	double worth = WORTH * (overhead_of(expected) - target);

	for (enum knob knob = 0; knob < GOVERNOR_LADDER_END; knob++) {
		double least = worth;

		// A step that would be needed for the margin only is not begun with.
		if (overhead_of(expected) <= governor->options.budget)
			break;
		while (overhead_of(expected) > target && can_step_down(governor, knob, expected) &&
		       decision->change_count < GOVERNOR_CHANGES_MAX &&
		       saving_of(governor, knob, expected) >= least) {
			step_down(governor, knob, expected, decision);
			// A knob is turned as far as needed; but not every process is to blame.
			if (knob != KNOB_PROCESS_OFF_CPU)
				least = 0;
		}
	}
}

// Many small savings: the largest of them, if it counts at all.
static void step_down_once(struct governor *governor, struct governor_reading *expected,
			   struct governor_decision *decision)
{
	double largest = 0.05 * governor->options.budget;
	enum knob best = KNOB_GOVERNED;

	for (enum knob knob = 0; knob < GOVERNOR_LADDER_END; knob++) {
		double saving = saving_of(governor, knob, expected);

		if (saving > largest) {
			largest = saving;
			best = knob;
		}
	}
	if (best != KNOB_GOVERNED)
		step_down(governor, best, expected, decision);
}

static void note_down(struct governor *governor)
{
	uint64_t calm_ns = governor->options.calm_ns;

	if (governor->last_up_ns &&
	    governor->now_ns - governor->last_up_ns < RELAPSE_CALMS * calm_ns)
		governor->calm_needed *= 2;
	else if (governor->now_ns - governor->last_down_ns > CALM_NEEDED_MAX * calm_ns)
		governor->calm_needed = calm_ns;
	if (governor->calm_needed > CALM_NEEDED_MAX * calm_ns)
		governor->calm_needed = CALM_NEEDED_MAX * calm_ns;
	governor->last_down_ns = governor->now_ns;
}

// The last resort that saves most; KNOB_GOVERNED: none.
static enum knob last_resort(const struct governor *governor,
			     const struct governor_reading *reading)
{
	double least = WORTH_OFF * (governor->overhead - governor->options.budget);
	enum knob best = KNOB_GOVERNED;

	if (governor->twice_ns < governor->options.over_ns)
		return best;
	for (enum knob knob = GOVERNOR_LADDER_END; knob < KNOB_GOVERNED; knob++) {
		double saving = saving_of(governor, knob, reading);

		if (saving > least) {
			least = saving;
			best = knob;
		}
	}
	return best;
}

static void take_last_resort(struct governor *governor, enum knob knob,
			     struct governor_reading *expected, struct governor_decision *decision)
{
	explain(governor, expected, "shedding load, twice above budget", decision);
	step_down(governor, knob, expected, decision);
	governor->off_ns[knob] = governor->now_ns;
	governor->twice_ns = 0;
	note_down(governor);
}

static void note_exceeded(struct governor *governor, const struct governor_reading *reading,
			  struct governor_decision *decision)
{
	governor->exceeded_ns += reading->elapsed_ns;
	// With nothing shed it may be the agent's work on new processes, which passes.
	if (governor->exceeded ||
	    (!governor_level(governor) && governor->exceeded_ns < governor->options.over_ns))
		return;
	governor->exceeded = true;
	decision->outcome = GOVERNOR_EXCEEDED;
	explain(governor, reading, "overhead budget exceeded, no load left to shed", decision);
}

static void come_down(struct governor *governor, const struct governor_reading *reading,
		      struct governor_decision *decision)
{
	struct governor_reading expected = *reading;
	bool twice = governor->overhead > 2 * governor->options.budget;

	step_down_to_target(governor, &expected, decision);
	governor->twice_ns =
		twice && !decision->change_count ? governor->twice_ns + reading->elapsed_ns : 0;
	enum knob knob = last_resort(governor, reading);
	if (knob != KNOB_GOVERNED) {
		take_last_resort(governor, knob, &expected, decision);
		return;
	}
	if (!decision->change_count && !twice)
		step_down_once(governor, &expected, decision);
	if (!decision->change_count) {
		note_exceeded(governor, reading, decision);
		return;
	}
	governor->exceeded_ns = 0;
	governor->exceeded = false; // so that it is reported again should this not suffice
	note_down(governor);
	explain(governor, reading, "shedding load", decision);
}

// ---- up -------------------------------------------------------------------------------------

// How much the overhead would grow by a step up. Nothing is known of a process that is off.
static double overhead_of_step_up(const struct governor *governor, enum knob knob,
				  const struct governor_reading *reading)
{
	struct governor before = *governor;
	struct governor_reading copy = *reading;
	double *program, part;

	if (knob == KNOB_PROCESS_OFF_CPU)
		return 0;
	if (knob == KNOB_WAKERS)
		return governor->wakers_overhead;
	if (knob == KNOB_OFF_CPU_UNWIND) // four times the stacks
		return with_agent(reading, reading->off_cpu) * reading->off_cpu_unwind *
		       (1 / STEP_RATIO - 1);
	before.steps[knob]--;
	part = next_step(&before, knob, &copy, &program);
	return with_agent(reading, *program) * part / (1 - part);
}

static void step_up(struct governor *governor, enum knob knob, struct governor_decision *decision)
{
	struct governor_change change = { .knob = knob, .step = --governor->steps[knob] };

	if (knob == KNOB_PROCESS_OFF_CPU)
		change.process = governor->off[change.step];
	decision->changes[decision->change_count++] = change;
	governor->last_up_ns = governor->now_ns;
	governor->calm_ns = 0;
}

// One step, of the last knob first, that stays below the budget.
static void go_up(struct governor *governor, const struct governor_reading *reading,
		  struct governor_decision *decision)
{
	double limit = UP_LIMIT * governor->options.budget;

	for (enum knob knob = GOVERNOR_LADDER_END; knob-- > 0;) {
		if (governor->steps[knob] &&
		    governor->overhead + overhead_of_step_up(governor, knob, reading) <= limit) {
			step_up(governor, knob, decision);
			explain(governor, reading, "restoring", decision);
			return;
		}
	}
	// Their overhead now is unknown; it was too high some time ago.
	governor->wakers_overhead *= WAKERS_DECAY;
}

// The last resort that has been long enough off; KNOB_GOVERNED: none.
static enum knob due_again(const struct governor *governor)
{
	for (enum knob knob = GOVERNOR_LADDER_END; knob < KNOB_GOVERNED; knob++) {
		if (governor->steps[knob] &&
		    governor->now_ns - governor->off_ns[knob] >= governor->retry_wait_ns[knob])
			return knob;
	}
	return KNOB_GOVERNED;
}

static void try_again(struct governor *governor, enum knob knob,
		      const struct governor_reading *reading, struct governor_decision *decision)
{
	uint64_t longest_ns = RETRY_MAX * governor->options.retry_ns;

	step_up(governor, knob, decision);
	governor->retry_wait_ns[knob] *= 2;
	if (governor->retry_wait_ns[knob] > longest_ns)
		governor->retry_wait_ns[knob] = longest_ns;
	explain(governor, reading, "retrying", decision);
}

static void stay_low(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *decision)
{
	if (governor->exceeded) {
		governor->exceeded = false;
		decision->outcome = GOVERNOR_MET;
		explain(governor, reading, "overhead budget met", decision);
	}
	governor->exceeded_ns = governor->twice_ns = 0;
	if (governor->overhead >= governor->options.budget / 2) {
		governor->calm_ns = 0;
		return;
	}
	governor->calm_ns += reading->elapsed_ns;
	if (governor->calm_ns < governor->calm_needed || is_any_off(governor))
		return;
	go_up(governor, reading, decision);
	if (!governor_level(governor))
		reset_retries(governor);
}

// ---- decide ---------------------------------------------------------------------------------

void governor_decide(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *ret_decision)
{
	const struct governor_options *options = &governor->options;
	double overhead = overhead_of(reading);
	bool over = overhead > options->budget;

	*ret_decision = (struct governor_decision){ .outcome = GOVERNOR_KEEP };
	governor->now_ns += reading->elapsed_ns;
	governor->overhead = overhead;
	if (over)
		governor->calm_ns = 0;
	if (due_again(governor) != KNOB_GOVERNED)
		try_again(governor, due_again(governor), reading, ret_decision);
	else if (overhead > 2 * options->budget || (over && governor->over_before))
		come_down(governor, reading, ret_decision);
	else if (!over)
		stay_low(governor, reading, ret_decision);
	governor->over_before = over;
	governor->changes += ret_decision->change_count;
	if (ret_decision->change_count)
		ret_decision->outcome = GOVERNOR_CHANGE;
}

bool governor_forget_process(struct governor *governor, uint32_t pid,
			     struct governor_change *ret_change)
{
	uint32_t *count = &governor->steps[KNOB_PROCESS_OFF_CPU];

	for (uint32_t i = 0; i < *count; i++) {
		if (governor->off[i].pid != pid)
			continue;
		*ret_change = (struct governor_change){ .knob = KNOB_PROCESS_OFF_CPU,
							.process = governor->off[i] };
		memmove(&governor->off[i], &governor->off[i + 1],
			(*count - i - 1) * sizeof(governor->off[0]));
		ret_change->step = --*count;
		governor->changes++;
		return true;
	}
	return false;
}
