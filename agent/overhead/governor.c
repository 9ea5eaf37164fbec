// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/governor.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Steps down aim at this part of the budget, so that noise does not lead to the next one. */
#define TARGET 0.9
/* A step that saves less than this part of the excess is skipped: it would not help. */
#define WORTH 0.1
/* CPU sampling and last resorts must save at least this part. */
#define WORTH_LAST 0.25
/*
 * Steps up may lead up to this part of the budget. What led above the budget must have fallen by a tenth
 * before it is tried again, whatever the machine costs at rest.
 */
#define UP_LIMIT 0.9
/* A step up that follows another waits for so much less. */
#define NEXT_UP 3
/* A reading in which no step up would fit undoes so many in which one would. */
#define CALM_LOSS 2
/*
 * A recovery may begin every RECOVERY_CALMS calm_ns, and RECOVERIES_MAX of them at once; one that was followed
 * by a step down within RELAPSE_CALMS counts twice. So a load that comes and goes, or is meant to make the
 * governor flap, leads to some ten recoveries an hour at most, but one that leaves is recovered from at once.
 */
#define RECOVERY_CALMS 6
#define RECOVERIES_MAX 3
#define RELAPSE_CALMS  3
/* Without two of them no step down is made, unless the BPF programs alone are above the budget. */
#define OVER_READINGS 2
#define RETRY_MAX     12 // times retry_ns: an hour

double governor_default_budget(uint32_t cores)
{
	double budget = cores / 8.0 / 100;

	return budget < 0.02 ? 0.02 : budget;
}

double governor_default_boost_budget(uint32_t cores)
{
	double of_machine = 0.04 * cores, of_budget = 4 * governor_default_budget(cores);

	return of_machine > of_budget ? of_machine : of_budget;
}

static void reset_retries(struct governor *governor)
{
	for (int knob = 0; knob < KNOB_GOVERNED; knob++)
		governor->retry_wait_ns[knob] = governor->options.retry_ns;
}

void governor_init(struct governor *governor, const struct governor_options *options)
{
	*governor = (struct governor){ .options = *options, .recoveries = RECOVERIES_MAX };
	load_shedding_init(&governor->shed, options->frequency_hz, options->knobs);
	reset_retries(governor);
}

void governor_set_target(struct governor *governor, const struct governor_target *target)
{
	governor->options.budget = target->budget;
	governor->options.knobs = target->knobs;
	load_shedding_set_knobs(&governor->shed, target->knobs);
	load_shedding_set_rate(&governor->shed, target->frequency_hz,
			       governor->options.frequency_hz);
	governor->over_ns = governor->calm_ns = 0;
	governor->exceeded_ns = governor->twice_ns = 0;
}

uint32_t governor_level(const struct governor *governor)
{
	uint32_t level = 0;

	for (int knob = 0; knob < KNOB_GOVERNED; knob++)
		level += governor->shed.steps[knob];
	return level;
}

uint32_t governor_shedding(const struct governor *governor,
			   struct governor_change ret_changes[GOVERNOR_CHANGES_MAX])
{
	uint32_t count = 0;

	_Static_assert(KNOB_GOVERNED + SHEDDING_PROCESSES_MAX <= GOVERNOR_CHANGES_MAX,
		       "room for all");
	for (int knob = 0; knob < KNOB_GOVERNED; knob++) {
		uint32_t step = governor->shed.steps[knob];
		// A step of the other knobs has those before in it.
		uint32_t reported = knob == KNOB_PROCESS_OFF_CPU ? step : step > 0;

		// A boost that is not had in full takes nothing away.
		if (knob == KNOB_CPU_FREQUENCY &&
		    governor_frequency_hz(governor) >= governor->options.frequency_hz)
			continue;

		for (uint32_t i = 0; i < reported; i++)
			ret_changes[count++] = (struct governor_change){
				.knob = knob,
				.step = step,
				.down = true,
				.process = governor->shed.off[i],
			};
	}
	return count;
}

uint32_t governor_frequency_hz(const struct governor *governor)
{
	return governor->shed.frequencies[governor->shed.steps[KNOB_CPU_FREQUENCY]];
}

static bool is_boosted(const struct governor *governor)
{
	return governor_frequency_hz(governor) > governor->options.frequency_hz;
}

bool governor_is_off(const struct governor *governor, enum knob knob)
{
	return knob >= LAST_RESORTS && governor->shed.steps[knob];
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
			 governor->shed.frequencies[change->step]);
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

// A knob that is turned by several steps is one change; a process is one each.
static void add_change(struct governor_decision *decision, const struct governor_change *change)
{
	for (uint32_t i = 0; i < decision->change_count; i++) {
		if (decision->changes[i].knob == change->knob &&
		    change->knob != KNOB_PROCESS_OFF_CPU) {
			decision->changes[i] = *change;
			return;
		}
	}
	if (decision->change_count < GOVERNOR_CHANGES_MAX)
		decision->changes[decision->change_count++] = *change;
}

// ---- down -----------------------------------------------------------------------------------

static void step_down(struct governor *governor, enum knob knob, struct governor_reading *expected,
		      struct governor_decision *decision)
{
	struct governor_change change = { .knob = knob, .down = true };

	if (knob == KNOB_PROCESS_OFF_CPU)
		change.process = expected->worst[0];
	load_shedding_step_down(&governor->shed, knob, expected);
	governor->off_ns[knob] = governor->now_ns;
	change.step = governor->shed.steps[knob];
	add_change(decision, &change);
}

// One knob as far as it is needed, if each step saves at least so much.
static void turn_down(struct governor *governor, enum knob knob, double least,
		      struct governor_reading *expected, struct governor_decision *decision)
{
	double target = TARGET * governor->options.budget;

	while (overhead_of(expected) > target &&
	       load_shedding_can_step_down(&governor->shed, knob, expected) &&
	       load_shedding_saving(&governor->shed, knob, expected) >= least) {
		step_down(governor, knob, expected, decision);
		// Once begun with, a knob is turned on; but not every process is to blame.
		if (knob != KNOB_PROCESS_OFF_CPU)
			least = 0;
	}
}

// The steps that lead below the budget, in the order of knobs, without those that hardly matter.
static void shed_detail(struct governor *governor, struct governor_reading *expected,
			struct governor_decision *decision)
{
	double worth = WORTH * (overhead_of(expected) - TARGET * governor->options.budget);

	for (enum knob knob = 0; knob < KNOB_CPU_FREQUENCY; knob++) {
		// A step that would be needed for the margin only is not begun with.
		if (overhead_of(expected) <= governor->options.budget)
			break;
		turn_down(governor, knob, worth, expected, decision);
	}
}

// Many small savings: the largest of them, if it counts at all.
static void shed_largest(struct governor *governor, struct governor_reading *expected,
			 struct governor_decision *decision)
{
	double largest = 0.05 * governor->options.budget;
	enum knob best = KNOB_GOVERNED;

	for (enum knob knob = 0; knob < KNOB_CPU_FREQUENCY; knob++) {
		double saving = load_shedding_saving(&governor->shed, knob, expected);

		if (saving > largest) {
			largest = saving;
			best = knob;
		}
	}
	if (best != KNOB_GOVERNED)
		step_down(governor, best, expected, decision);
}

static double excess(const struct governor *governor)
{
	return governor->overhead - governor->options.budget;
}

// Fewer CPU samples are a coarser picture of everything: only when no detail was left for a while.
static void shed_sampling(struct governor *governor, struct governor_reading *expected,
			  struct governor_decision *decision)
{
	if (governor->exceeded_ns >= governor->options.over_ns)
		turn_down(governor, KNOB_CPU_FREQUENCY, WORTH_LAST * excess(governor), expected,
			  decision);
}

// The one that saves most; KNOB_GOVERNED: none saves enough.
static enum knob best_last_resort(const struct governor *governor,
				  const struct governor_reading *expected)
{
	double least = WORTH_LAST * excess(governor);
	enum knob best = KNOB_GOVERNED;

	for (enum knob knob = LAST_RESORTS; knob < KNOB_GOVERNED; knob++) {
		double saving = load_shedding_saving(&governor->shed, knob, expected);

		if (saving > least) {
			least = saving;
			best = knob;
		}
	}
	return best;
}

static void take_last_resort(struct governor *governor, struct governor_reading *expected,
			     struct governor_decision *decision)
{
	enum knob best = best_last_resort(governor, expected);

	if (governor->twice_ns >= governor->options.over_ns && best != KNOB_GOVERNED)
		step_down(governor, best, expected, decision);
}

static void note_down(struct governor *governor)
{
	uint64_t relapse_ns = RELAPSE_CALMS * governor->options.calm_ns;

	if (governor->recovering && governor->now_ns - governor->last_up_ns < relapse_ns)
		governor->recoveries--;
	governor->recovering = false;
	governor->last_down_ns = governor->now_ns;
	governor->exceeded_ns = governor->twice_ns = 0;
	governor->exceeded = false; // so that it is reported again should this not suffice
}

// Not before CPU sampling and the last resorts have had their time. With nothing shed it may also be the agent's work on
// new processes, which passes.
static void note_exceeded(struct governor *governor, const struct governor_reading *reading,
			  struct governor_decision *decision)
{
	bool is_early = governor->exceeded_ns < governor->options.over_ns ||
			(governor->twice_ns && governor->twice_ns < governor->options.over_ns);
	bool is_left = best_last_resort(governor, reading) != KNOB_GOVERNED;

	if (governor->exceeded || is_early)
		return;
	governor->exceeded = true;
	decision->outcome = GOVERNOR_EXCEEDED;
	explain(governor, reading,
		is_left ? "overhead budget exceeded, no step left below twice the budget"
			: "overhead budget exceeded, no shedding step helps",
		decision);
}

// What a boost has raised is the first to go: nobody loses detail for it.
static void shed_boost(struct governor *governor, struct governor_reading *expected,
		       struct governor_decision *decision)
{
	double target = TARGET * governor->options.budget;

	while (overhead_of(expected) > target && is_boosted(governor))
		step_down(governor, KNOB_CPU_FREQUENCY, expected, decision);
}

static void come_down(struct governor *governor, const struct governor_reading *reading,
		      struct governor_decision *decision)
{
	struct governor_reading expected = *reading;
	bool twice = governor->overhead > 2 * governor->options.budget;

	shed_boost(governor, &expected, decision);
	shed_detail(governor, &expected, decision);
	if (!decision->change_count && !twice)
		shed_largest(governor, &expected, decision);
	if (!decision->change_count) {
		governor->exceeded_ns += reading->elapsed_ns;
		governor->twice_ns = twice ? governor->twice_ns + reading->elapsed_ns : 0;
		shed_sampling(governor, &expected, decision);
	}
	if (!decision->change_count)
		take_last_resort(governor, &expected, decision);
	if (!decision->change_count) {
		note_exceeded(governor, reading, decision);
		return;
	}
	note_down(governor);
	explain(governor, reading, "shedding load", decision);
}

// How long the overhead must have been above the budget. A storm in the BPF programs is answered at
// once. Where most is the agent's own work, it is on new processes, which passes, and shedding hardly helps.
static uint64_t patience_ns(const struct governor *governor, const struct governor_reading *reading)
{
	const struct governor_options *options = &governor->options;
	double programs = overhead_of_programs(reading);

	if (programs > options->budget && governor->overhead > 2 * options->budget)
		return 0;
	if (programs < options->budget && programs < reading->agent)
		return options->calm_ns;
	return OVER_READINGS * options->interval_ns - options->interval_ns / 2;
}

// ---- up -------------------------------------------------------------------------------------

static void step_up(struct governor *governor, enum knob knob, struct governor_reading *expected,
		    struct governor_decision *decision)
{
	uint32_t step = governor->shed.steps[knob];

	load_shedding_step_up(&governor->shed, knob, expected);
	while (step-- > governor->shed.steps[knob]) {
		struct governor_change change = { .knob = knob, .step = step };

		if (knob == KNOB_PROCESS_OFF_CPU)
			change.process = governor->shed.off[step];
		add_change(decision, &change);
	}
}

// All steps that fit within the budget together, of the last knob first.
static void go_up(struct governor *governor, const struct governor_reading *reading,
		  struct governor_decision *decision)
{
	struct governor_reading expected = *reading;
	double limit = UP_LIMIT * governor->options.budget;

	for (enum knob knob = KNOB_GOVERNED; knob-- > 0;) {
		while (overhead_of(&expected) +
			       load_shedding_growth(&governor->shed, knob, &expected) <=
		       limit)
			step_up(governor, knob, &expected, decision);
	}
}

static void note_up(struct governor *governor)
{
	if (!governor->recovering)
		governor->recoveries--;
	governor->recovering = true;
	governor->last_up_ns = governor->now_ns;
	governor->calm_ns = 0;
	if (!governor_level(governor))
		reset_retries(governor);
}

// What was switched off and is due for another try, whatever is known of it; KNOB_GOVERNED: none.
static enum knob due_again(const struct governor *governor)
{
	static const enum knob switches[] = { KNOB_WAKERS, KNOB_PAGE_FAULTS, KNOB_OFF_CPU };

	for (uint32_t i = 0; i < ARRAY_SIZE(switches); i++) {
		enum knob knob = switches[i];

		if (governor->shed.steps[knob] &&
		    governor->now_ns - governor->off_ns[knob] >= governor->retry_wait_ns[knob])
			return knob;
	}
	return KNOB_GOVERNED;
}

static void try_again(struct governor *governor, enum knob knob,
		      const struct governor_reading *reading, struct governor_decision *decision)
{
	uint64_t longest_ns = RETRY_MAX * governor->options.retry_ns;
	struct governor_reading expected = *reading;

	step_up(governor, knob, &expected, decision);
	governor->retry_wait_ns[knob] *= 2;
	if (governor->retry_wait_ns[knob] > longest_ns)
		governor->retry_wait_ns[knob] = longest_ns;
	explain(governor, reading, "retrying", decision);
}

static void note_met(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *decision)
{
	if (governor->exceeded) {
		governor->exceeded = false;
		decision->outcome = GOVERNOR_MET;
		explain(governor, reading,
			governor_level(governor) ? "overhead budget met, load still shed"
						 : "overhead budget met",
			decision);
	}
	governor->exceeded_ns = governor->twice_ns = 0;
}

// Steps up that have fitted for long enough are made. Those that follow a step up are seen to fit sooner.
static void recover(struct governor *governor, const struct governor_reading *reading,
		    struct governor_decision *decision)
{
	uint64_t needed_ns = governor->options.calm_ns / (governor->recovering ? NEXT_UP : 1);
	struct governor after = *governor;
	struct governor_decision up = { .outcome = GOVERNOR_KEEP };

	go_up(&after, reading, &up);
	if (!up.change_count) {
		uint64_t loss_ns = CALM_LOSS * reading->elapsed_ns;

		governor->calm_ns = governor->calm_ns > loss_ns ? governor->calm_ns - loss_ns : 0;
		return;
	}
	governor->calm_ns += reading->elapsed_ns;
	if (governor->calm_ns < needed_ns || (!governor->recovering && governor->recoveries < 1))
		return;
	*decision = up;
	governor->shed = after.shed;
	note_up(governor);
	explain(governor, reading, "restoring", decision);
}

// ---- decide ---------------------------------------------------------------------------------

static void take_time(struct governor *governor, uint64_t elapsed_ns, bool over)
{
	governor->now_ns += elapsed_ns;
	governor->over_ns = over ? governor->over_ns + elapsed_ns : 0;
	governor->recoveries +=
		(double)elapsed_ns / (double)(RECOVERY_CALMS * governor->options.calm_ns);
	if (governor->recoveries > RECOVERIES_MAX)
		governor->recoveries = RECOVERIES_MAX;
	if (over)
		governor->calm_ns = 0;
}

void governor_decide(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *ret_decision)
{
	double overhead = overhead_of(reading);
	bool over = overhead > governor->options.budget;

	*ret_decision = (struct governor_decision){ .outcome = GOVERNOR_KEEP };
	take_time(governor, reading->elapsed_ns, over);
	governor->overhead = overhead;
	if (!over)
		note_met(governor, reading, ret_decision);
	if (due_again(governor) != KNOB_GOVERNED)
		try_again(governor, due_again(governor), reading, ret_decision);
	else if (over && governor->over_ns >= patience_ns(governor, reading))
		come_down(governor, reading, ret_decision);
	else if (!over && governor_level(governor))
		recover(governor, reading, ret_decision);
	governor->changes += ret_decision->change_count;
	if (ret_decision->change_count)
		ret_decision->outcome = GOVERNOR_CHANGE;
}

bool governor_drop_process(struct governor *governor, uint32_t pid,
			   struct governor_change *ret_change)
{
	struct load_shedding *shed = &governor->shed;
	uint32_t *count = &shed->steps[KNOB_PROCESS_OFF_CPU];

	for (uint32_t i = 0; i < *count; i++) {
		if (shed->off[i].pid != pid)
			continue;
		*ret_change = (struct governor_change){ .knob = KNOB_PROCESS_OFF_CPU,
							.process = shed->off[i] };
		memmove(&shed->off[i], &shed->off[i + 1], (*count - i - 1) * sizeof(shed->off[0]));
		ret_change->step = --*count;
		governor->changes++;
		return true;
	}
	return false;
}
