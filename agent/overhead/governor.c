// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/governor.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

/* What a step down leaves of the stacks of waits, and of the page faults. */
#define STEP_RATIO 0.25
/* Steps down aim at this part of the budget, so that noise does not lead to the next one. */
#define TARGET 0.9
/* A step that saves less than this part of the excess is skipped: it would take what helps nobody. */
#define WORTH 0.1
/* A lane is given up only if that saves at least this part. */
#define WORTH_OFF 0.25
/* Steps up may lead up to this part of the budget. */
#define UP_LIMIT 0.8
/*
 * About half of the agent's own work follows the number of samples, unless it is far more than that
 * of the kernel programs: then it is work on new processes, which no step would save.
 */
#define OWN_OF_SAMPLES  0.5
#define OWN_PER_PROGRAM 2
/* What a process that is switched off saves: its times are told as before. */
#define PROCESS_OFF_SAVES 0.5
/* A step down so soon after a step up, in times of calm_ns: it was too early. */
#define RELAPSE_CALMS 5
/* The wait before a step up is doubled up to so many calm_ns; as long without a step down ends it. */
#define CALM_NEEDED_MAX 32
#define RETRY_MAX       12 // times retry_ns: an hour
/* What wakers cost is taken to be so much less at each calm reading: half in a minute or so. */
#define WAKERS_FORGET 0.9

static const uint32_t lower_frequencies_hz[GOVERNOR_SAMPLING_STEPS] = { 99, 49, 25, 19 };

double governor_default_budget(uint32_t cores)
{
	double budget = cores / 8.0 / 100;

	return budget < 0.02 ? 0.02 : budget;
}

static void forget_retries(struct governor *governor)
{
	for (int knob = GOVERNOR_LADDER_END; knob < GOVERNOR_KNOBS; knob++)
		governor->retry_wait_ns[knob] = governor->options.retry_ns;
}

void governor_init(struct governor *governor, const struct governor_options *options)
{
	*governor = (struct governor){
		.options = *options,
		.calm_needed = options->calm_ns,
	};
	uint32_t *count = &governor->steps_max[GOVERNOR_SAMPLING];
	governor->frequencies[0] = options->frequency_hz;
	for (uint32_t i = 0; i < GOVERNOR_SAMPLING_STEPS; i++) {
		if (lower_frequencies_hz[i] < options->frequency_hz)
			governor->frequencies[++*count] = lower_frequencies_hz[i];
	}
	governor->steps_max[GOVERNOR_WAKERS] = options->wakers;
	governor->steps_max[GOVERNOR_STACKS] = options->stacks ? GOVERNOR_STACK_STEPS : 0;
	governor->steps_max[GOVERNOR_FAULTS] = options->faults ? GOVERNOR_FAULT_STEPS : 0;
	governor->steps_max[GOVERNOR_PROCESSES] = options->processes ? GOVERNOR_PROCESSES_MAX : 0;
	governor->steps_max[GOVERNOR_FAULTS_OFF] = options->faults;
	governor->steps_max[GOVERNOR_WAITS_OFF] = options->waits;
	forget_retries(governor);
}

uint32_t governor_level(const struct governor *governor)
{
	uint32_t level = 0;

	for (int knob = 0; knob < GOVERNOR_KNOBS; knob++)
		level += governor->steps[knob];
	return level;
}

uint32_t governor_in_force(const struct governor *governor,
			   struct governor_change ret_changes[GOVERNOR_CHANGES_MAX])
{
	uint32_t count = 0;

	_Static_assert(GOVERNOR_KNOBS + GOVERNOR_PROCESSES_MAX <= GOVERNOR_CHANGES_MAX,
		       "room for all");
	for (int knob = 0; knob < GOVERNOR_KNOBS; knob++) {
		uint32_t step = governor->steps[knob];
		// A step of the other knobs has those before in it.
		uint32_t told = knob == GOVERNOR_PROCESSES ? step : step > 0;

		for (uint32_t i = 0; i < told; i++)
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
	return governor->frequencies[governor->steps[GOVERNOR_SAMPLING]];
}

bool governor_is_off(const struct governor *governor, enum governor_knob knob)
{
	return knob >= GOVERNOR_LADDER_END && governor->steps[knob];
}

static bool is_any_off(const struct governor *governor)
{
	return governor_is_off(governor, GOVERNOR_FAULTS_OFF) ||
	       governor_is_off(governor, GOVERNOR_WAITS_OFF);
}

// ---- words ----------------------------------------------------------------------------------

// A process may call itself nothing, or something that is no text.
static void describe_process(const struct governor_change *change, char text[GOVERNOR_TEXT_BYTES])
{
	const char *state = change->down ? "off" : "on";
	char name[GOVERNOR_NAME_BYTES + 1] = "";

	memcpy(name, change->process.name, GOVERNOR_NAME_BYTES);
	utf8_clean(name);
	if (strspn(name, " ?") == strlen(name))
		snprintf(text, GOVERNOR_TEXT_BYTES, "stacks of waits of process %u %s",
			 change->process.pid, state);
	else
		snprintf(text, GOVERNOR_TEXT_BYTES, "stacks of waits of %s (%u) %s", name,
			 change->process.pid, state);
}

void governor_describe(const struct governor *governor, const struct governor_change *change,
		       char text[GOVERNOR_TEXT_BYTES])
{
	switch (change->knob) {
	case GOVERNOR_STACKS:
	case GOVERNOR_FAULTS:
		snprintf(text, GOVERNOR_TEXT_BYTES, "%s%s",
			 change->knob == GOVERNOR_STACKS ? "stacks of waits" : "page faults",
			 change->step == 0   ? " all"
			 : change->step == 1 ? " at 1/4"
			 : change->step == 2 ? " at 1/16"
					     : " at 1/64");
		break;
	case GOVERNOR_SAMPLING:
		snprintf(text, GOVERNOR_TEXT_BYTES, "sampling at %u Hz",
			 governor->frequencies[change->step]);
		break;
	case GOVERNOR_PROCESSES:
		describe_process(change, text);
		break;
	default:
		snprintf(text, GOVERNOR_TEXT_BYTES, "%s %s",
			 change->knob == GOVERNOR_WAKERS      ? "wakers"
			 : change->knob == GOVERNOR_WAITS_OFF ? "wall clock and waits"
							      : "memory growth",
			 change->down ? "off" : "on");
	}
}

static void say_why(const struct governor *governor, const struct governor_reading *reading,
		    const char *what, char why[GOVERNOR_TEXT_BYTES])
{
	snprintf(why, GOVERNOR_TEXT_BYTES,
		 "%s: %.2f %% of a core in %.3g s (waits %.2f, sampling %.2f, page faults %.2f, "
		 "wakers %.2f, other programs %.2f, the agent %.2f), the budget is %.2f %%",
		 what, 100 * governor->cost, (double)reading->elapsed_ns / NS_PER_SECOND,
		 100 * reading->waits, 100 * reading->sampling, 100 * reading->faults,
		 100 * reading->wakers, 100 * reading->rest, 100 * reading->own,
		 100 * governor->options.budget);
}

// ---- what steps save ------------------------------------------------------------------------

static double programs_of(const struct governor_reading *reading)
{
	return reading->sampling + reading->waits + reading->faults + reading->wakers +
	       reading->rest;
}

static double cost_of(const struct governor_reading *reading)
{
	return programs_of(reading) + reading->own;
}

// A lane's programs, and what the agent does with their samples.
static double with_own(const struct governor_reading *reading, double cost)
{
	double programs = programs_of(reading);
	double own = programs > 0 ? OWN_OF_SAMPLES * reading->own * cost / programs : 0;

	return cost + (own < OWN_PER_PROGRAM * cost ? own : OWN_PER_PROGRAM * cost);
}

static bool can_step_down(const struct governor *governor, enum governor_knob knob,
			  const struct governor_reading *reading)
{
	return governor->steps[knob] < governor->steps_max[knob] &&
	       (knob != GOVERNOR_PROCESSES || reading->worst_count);
}

/* The part of a lane's cost that the knob's next step saves, and the lane. */
static double next_step(const struct governor *governor, enum governor_knob knob,
			struct governor_reading *reading, double **ret_lane)
{
	uint32_t step = governor->steps[knob];

	*ret_lane = &reading->waits;
	switch (knob) {
	case GOVERNOR_STACKS:
		return reading->stacks * (1 - STEP_RATIO);
	case GOVERNOR_WAKERS:
		*ret_lane = &reading->wakers;
		return 1;
	case GOVERNOR_FAULTS:
		*ret_lane = &reading->faults;
		return 1 - STEP_RATIO;
	case GOVERNOR_FAULTS_OFF:
		*ret_lane = &reading->faults;
		return 1;
	case GOVERNOR_SAMPLING:
		*ret_lane = &reading->sampling;
		return 1 - (double)governor->frequencies[step + 1] / governor->frequencies[step];
	case GOVERNOR_PROCESSES:
		return PROCESS_OFF_SAVES * reading->worst[0].share;
	default:
		return 1;
	}
}

static double saving_of(const struct governor *governor, enum governor_knob knob,
			const struct governor_reading *reading)
{
	struct governor_reading copy = *reading;
	double *source, part;

	if (!can_step_down(governor, knob, reading))
		return 0;
	part = next_step(governor, knob, &copy, &source);
	return part * with_own(reading, *source);
}

// ---- down -----------------------------------------------------------------------------------

// @expected becomes what the reading would be after the step.
static void step_down(struct governor *governor, enum governor_knob knob,
		      struct governor_reading *expected, struct governor_decision *decision)
{
	struct governor_change change = { .knob = knob, .down = true };
	double *source, part = next_step(governor, knob, expected, &source);
	double own = with_own(expected, *source) - *source;

	if (knob == GOVERNOR_WAKERS)
		governor->wakers_cost = *source + own;
	*source *= 1 - part;
	expected->own -= own * part;
	if (knob == GOVERNOR_STACKS)
		expected->stacks *= STEP_RATIO / (1 - part);
	if (knob == GOVERNOR_PROCESSES) {
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

// The steps that lead below the budget, in the order of the ladder, less those that hardly matter.
static void step_down_to_target(struct governor *governor, struct governor_reading *expected,
				struct governor_decision *decision)
{
	double target = TARGET * governor->options.budget;
	double worth = WORTH * (cost_of(expected) - target);

	for (enum governor_knob knob = 0; knob < GOVERNOR_LADDER_END; knob++) {
		double least = worth;

		// A step that would be needed for the margin only is not begun with.
		if (cost_of(expected) <= governor->options.budget)
			break;
		while (cost_of(expected) > target && can_step_down(governor, knob, expected) &&
		       decision->change_count < GOVERNOR_CHANGES_MAX &&
		       saving_of(governor, knob, expected) >= least) {
			step_down(governor, knob, expected, decision);
			// A lane that is cut is cut as far as it takes; but not every process is to blame.
			if (knob != GOVERNOR_PROCESSES)
				least = 0;
		}
	}
}

// Many small things: the largest of them, if it is felt at all.
static void step_down_once(struct governor *governor, struct governor_reading *expected,
			   struct governor_decision *decision)
{
	double largest = 0.05 * governor->options.budget;
	enum governor_knob best = GOVERNOR_KNOBS;

	for (enum governor_knob knob = 0; knob < GOVERNOR_LADDER_END; knob++) {
		double saving = saving_of(governor, knob, expected);

		if (saving > largest) {
			largest = saving;
			best = knob;
		}
	}
	if (best != GOVERNOR_KNOBS)
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

// The lane to be given up: it helps if that is what costs. GOVERNOR_KNOBS: none.
static enum governor_knob last_resort(const struct governor *governor,
				      const struct governor_reading *reading)
{
	double least = WORTH_OFF * (governor->cost - governor->options.budget);
	enum governor_knob best = GOVERNOR_KNOBS;

	if (governor->twice_ns < governor->options.over_ns)
		return best;
	for (enum governor_knob knob = GOVERNOR_LADDER_END; knob < GOVERNOR_KNOBS; knob++) {
		double saving = saving_of(governor, knob, reading);

		if (saving > least) {
			least = saving;
			best = knob;
		}
	}
	return best;
}

static void give_up(struct governor *governor, enum governor_knob knob,
		    struct governor_reading *expected, struct governor_decision *decision)
{
	say_why(governor, expected, "more than twice the budget, and nothing else is left",
		decision->why);
	step_down(governor, knob, expected, decision);
	governor->off_ns[knob] = governor->now_ns;
	governor->twice_ns = 0;
	note_down(governor);
}

static void at_floor(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *decision)
{
	governor->floor_ns += reading->elapsed_ns;
	// Without a step it may be the agent's work on new processes, which passes.
	if (governor->floor_told ||
	    (!governor_level(governor) && governor->floor_ns < governor->options.over_ns))
		return;
	governor->floor_told = true;
	decision->outcome = GOVERNOR_FLOOR;
	say_why(governor, reading, "too much, and nothing is left that would help", decision->why);
}

static void come_down(struct governor *governor, const struct governor_reading *reading,
		      struct governor_decision *decision)
{
	struct governor_reading expected = *reading;
	bool twice = governor->cost > 2 * governor->options.budget;

	step_down_to_target(governor, &expected, decision);
	governor->twice_ns =
		twice && !decision->change_count ? governor->twice_ns + reading->elapsed_ns : 0;
	enum governor_knob knob = last_resort(governor, reading);
	if (knob != GOVERNOR_KNOBS) {
		give_up(governor, knob, &expected, decision);
		return;
	}
	if (!decision->change_count && !twice)
		step_down_once(governor, &expected, decision);
	if (!decision->change_count) {
		at_floor(governor, reading, decision);
		return;
	}
	governor->floor_ns = 0;
	governor->floor_told = false; // if it does not suffice, that is news
	note_down(governor);
	say_why(governor, reading, "too much", decision->why);
}

// ---- up -------------------------------------------------------------------------------------

// What the agent would cost more after a step up. Of what a process would cost nothing is known.
static double cost_of_step_up(const struct governor *governor, enum governor_knob knob,
			      const struct governor_reading *reading)
{
	struct governor before = *governor;
	struct governor_reading copy = *reading;
	double *source, part;

	if (knob == GOVERNOR_PROCESSES)
		return 0;
	if (knob == GOVERNOR_WAKERS)
		return governor->wakers_cost;
	if (knob == GOVERNOR_STACKS) // four times the stacks
		return with_own(reading, reading->waits) * reading->stacks * (1 / STEP_RATIO - 1);
	before.steps[knob]--;
	part = next_step(&before, knob, &copy, &source);
	return with_own(reading, *source) * part / (1 - part);
}

static void step_up(struct governor *governor, enum governor_knob knob,
		    struct governor_decision *decision)
{
	struct governor_change change = { .knob = knob, .step = --governor->steps[knob] };

	if (knob == GOVERNOR_PROCESSES)
		change.process = governor->off[change.step];
	decision->changes[decision->change_count++] = change;
	governor->last_up_ns = governor->now_ns;
	governor->calm_ns = 0;
}

// One step, the latest of the ladder first, that leaves it below the budget.
static void go_up(struct governor *governor, const struct governor_reading *reading,
		  struct governor_decision *decision)
{
	double limit = UP_LIMIT * governor->options.budget;

	for (enum governor_knob knob = GOVERNOR_LADDER_END; knob-- > 0;) {
		if (governor->steps[knob] &&
		    governor->cost + cost_of_step_up(governor, knob, reading) <= limit) {
			step_up(governor, knob, decision);
			say_why(governor, reading, "less than half the budget for a while",
				decision->why);
			return;
		}
	}
	// What they would cost now is not known, only that it was too much some time ago.
	governor->wakers_cost *= WAKERS_FORGET;
}

// The last resort that has been long enough off; GOVERNOR_KNOBS: none.
static enum governor_knob due_again(const struct governor *governor)
{
	for (enum governor_knob knob = GOVERNOR_LADDER_END; knob < GOVERNOR_KNOBS; knob++) {
		if (governor->steps[knob] &&
		    governor->now_ns - governor->off_ns[knob] >= governor->retry_wait_ns[knob])
			return knob;
	}
	return GOVERNOR_KNOBS;
}

static void try_again(struct governor *governor, enum governor_knob knob,
		      const struct governor_reading *reading, struct governor_decision *decision)
{
	uint64_t longest_ns = RETRY_MAX * governor->options.retry_ns;

	step_up(governor, knob, decision);
	governor->retry_wait_ns[knob] *= 2;
	if (governor->retry_wait_ns[knob] > longest_ns)
		governor->retry_wait_ns[knob] = longest_ns;
	say_why(governor, reading, "tried again after a while", decision->why);
}

static void stay_low(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *decision)
{
	if (governor->floor_told) {
		governor->floor_told = false;
		decision->outcome = GOVERNOR_OVER;
		say_why(governor, reading, "within the budget again", decision->why);
	}
	governor->floor_ns = governor->twice_ns = 0;
	if (governor->cost >= governor->options.budget / 2) {
		governor->calm_ns = 0;
		return;
	}
	governor->calm_ns += reading->elapsed_ns;
	if (governor->calm_ns < governor->calm_needed || is_any_off(governor))
		return;
	go_up(governor, reading, decision);
	if (!governor_level(governor))
		forget_retries(governor);
}

// ---- decide ---------------------------------------------------------------------------------

void governor_decide(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *ret_decision)
{
	const struct governor_options *options = &governor->options;
	double cost = cost_of(reading);
	bool over = cost > options->budget;

	*ret_decision = (struct governor_decision){ .outcome = GOVERNOR_KEEP };
	governor->now_ns += reading->elapsed_ns;
	governor->cost = cost;
	if (over)
		governor->calm_ns = 0;
	if (due_again(governor) != GOVERNOR_KNOBS)
		try_again(governor, due_again(governor), reading, ret_decision);
	else if (cost > 2 * options->budget || (over && governor->over_before))
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
	uint32_t *count = &governor->steps[GOVERNOR_PROCESSES];

	for (uint32_t i = 0; i < *count; i++) {
		if (governor->off[i].pid != pid)
			continue;
		*ret_change = (struct governor_change){ .knob = GOVERNOR_PROCESSES,
							.process = governor->off[i] };
		memmove(&governor->off[i], &governor->off[i + 1],
			(*count - i - 1) * sizeof(governor->off[0]));
		ret_change->step = --*count;
		governor->changes++;
		return true;
	}
	return false;
}
