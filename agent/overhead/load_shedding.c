// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/load_shedding.h"

#include <math.h>
#include <string.h>

#include "base/cleanup.h"

/* What a step leaves of off-CPU stacks and of page faults. */
#define STEP_RATIO 0.25
/*
 * About half of the agent's own work follows the number of samples, unless it is far more than that
 * of the BPF programs: then it is work on new processes, which no step would save.
 */
#define AGENT_OF_SAMPLES  0.5
#define AGENT_PER_PROGRAM 2
/* What turning a process off saves: its times are still counted. */
#define PROCESS_OFF_SAVES 0.5

/* Where it can be turned. Those of KNOB_CPU_FREQUENCY follow from the frequency. */
static const uint32_t steps_max[KNOB_GOVERNED] = {
	[KNOB_WAKERS] = 1,
	[KNOB_OFF_CPU_UNWIND] = SHEDDING_UNWIND_STEPS,
	[KNOB_PAGE_FAULTS_UNWIND] = SHEDDING_UNWIND_STEPS,
	[KNOB_PROCESS_OFF_CPU] = SHEDDING_PROCESSES_MAX,
	[KNOB_PAGE_FAULTS] = 1,
	[KNOB_OFF_CPU] = 1,
};

static const uint32_t lower_frequencies_hz[] = { 499, 199, 99, 49, 25, 19 };

static void add_frequency(struct load_shedding *shedding, uint32_t frequency_hz)
{
	uint32_t *count = &shedding->steps_max[KNOB_CPU_FREQUENCY];

	if (frequency_hz < shedding->frequencies[*count])
		shedding->frequencies[++*count] = frequency_hz;
}

void load_shedding_set_rate(struct load_shedding *shedding, uint32_t frequency_hz, uint32_t own_hz)
{
	_Static_assert(ARRAY_SIZE(lower_frequencies_hz) < SHEDDING_SAMPLING_STEPS, "room for all");
	shedding->steps[KNOB_CPU_FREQUENCY] = shedding->steps_max[KNOB_CPU_FREQUENCY] = 0;
	shedding->frequencies[0] = frequency_hz;
	for (uint32_t i = 0; i < ARRAY_SIZE(lower_frequencies_hz); i++) {
		if (lower_frequencies_hz[i] <= own_hz)
			add_frequency(shedding, own_hz);
		add_frequency(shedding, lower_frequencies_hz[i]);
	}
	add_frequency(shedding, own_hz);
}

void load_shedding_set_knobs(struct load_shedding *shedding, uint32_t knobs)
{
	for (int knob = 0; knob < KNOB_GOVERNED; knob++) {
		if (knob == KNOB_CPU_FREQUENCY)
			continue;
		shedding->steps_max[knob] = knobs & KNOB_BIT(knob) ? steps_max[knob] : 0;
		if (!shedding->steps_max[knob])
			shedding->steps[knob] = 0;
	}
}

void load_shedding_init(struct load_shedding *shedding, uint32_t frequency_hz, uint32_t knobs)
{
	*shedding = (struct load_shedding){ 0 };
	load_shedding_set_rate(shedding, frequency_hz, frequency_hz);
	load_shedding_set_knobs(shedding, knobs);
}

double overhead_of_programs(const struct governor_reading *reading)
{
	return reading->sampling + reading->off_cpu + reading->page_faults + reading->wakers +
	       reading->other;
}

double overhead_of(const struct governor_reading *reading)
{
	return overhead_of_programs(reading) + reading->agent;
}

// The agent's work on what a program collects.
static double agent_part(const struct governor_reading *reading, double program)
{
	double programs = overhead_of_programs(reading);
	double part = programs > 0 ? AGENT_OF_SAMPLES * reading->agent * program / programs : 0;

	return part < AGENT_PER_PROGRAM * program ? part : AGENT_PER_PROGRAM * program;
}

// A program's overhead, and the agent's with its samples.
static double with_agent(const struct governor_reading *reading, double program)
{
	return program + agent_part(reading, program);
}

/* The field of @reading that a knob's steps change. */
static double *program_of(enum knob knob, struct governor_reading *reading)
{
	switch (knob) {
	case KNOB_WAKERS:
		return &reading->wakers;
	case KNOB_PAGE_FAULTS_UNWIND:
	case KNOB_PAGE_FAULTS:
		return &reading->page_faults;
	case KNOB_CPU_FREQUENCY:
		return &reading->sampling;
	default:
		return &reading->off_cpu;
	}
}

// What the overhead of a source that can be switched off whole follows from.
static double rate_of(enum knob knob, const struct governor_reading *reading)
{
	return knob == KNOB_PAGE_FAULTS ? reading->faults : reading->switches;
}

static bool is_switch(enum knob knob)
{
	return knob == KNOB_WAKERS || knob >= LAST_RESORTS;
}

// ---- down -----------------------------------------------------------------------------------

bool load_shedding_can_step_down(const struct load_shedding *shedding, enum knob knob,
				 const struct governor_reading *reading)
{
	return shedding->steps[knob] < shedding->steps_max[knob] &&
	       (knob != KNOB_PROCESS_OFF_CPU || reading->worst_count);
}

/* The part of its program's overhead that the knob's next step saves. */
static double part_saved(const struct load_shedding *shedding, enum knob knob,
			 const struct governor_reading *reading)
{
	uint32_t step = shedding->steps[knob];

	switch (knob) {
	case KNOB_OFF_CPU_UNWIND:
		return reading->off_cpu_unwind * (1 - STEP_RATIO);
	case KNOB_PAGE_FAULTS_UNWIND:
		return 1 - STEP_RATIO;
	case KNOB_CPU_FREQUENCY:
		return 1 - (double)shedding->frequencies[step + 1] / shedding->frequencies[step];
	case KNOB_PROCESS_OFF_CPU:
		return PROCESS_OFF_SAVES * reading->worst[0].share;
	default:
		return 1;
	}
}

double load_shedding_saving(const struct load_shedding *shedding, enum knob knob,
			    const struct governor_reading *reading)
{
	struct governor_reading copy = *reading;

	if (!load_shedding_can_step_down(shedding, knob, reading))
		return 0;
	return part_saved(shedding, knob, reading) * with_agent(reading, *program_of(knob, &copy));
}

// The worst process is off: the shares of the others are of what is left.
static void drop_worst(struct governor_reading *expected, double part)
{
	expected->worst_count--;
	memmove(&expected->worst[0], &expected->worst[1],
		expected->worst_count * sizeof(expected->worst[0]));
	for (uint32_t i = 0; i < expected->worst_count && part < 1; i++)
		expected->worst[i].share /= 1 - part;
}

void load_shedding_step_down(struct load_shedding *shedding, enum knob knob,
			     struct governor_reading *expected)
{
	double part = part_saved(shedding, knob, expected);
	double *program = program_of(knob, expected);
	double agent = agent_part(expected, *program);

	if (is_switch(knob)) {
		shedding->before_off[knob].overhead = *program + agent;
		shedding->before_off[knob].rate = rate_of(knob, expected);
	}
	*program *= 1 - part;
	expected->agent -= agent * part;
	if (knob == KNOB_OFF_CPU_UNWIND)
		expected->off_cpu_unwind *= STEP_RATIO / (1 - part);
	if (knob == KNOB_PROCESS_OFF_CPU) {
		shedding->off[shedding->steps[knob]] = expected->worst[0];
		drop_worst(expected, part);
	}
	shedding->steps[knob]++;
}

// ---- up -------------------------------------------------------------------------------------

/*
 * Of processes that are off only the times are counted, which is at least half of what their switches
 * cost: with all of them on it is at most twice as much, whatever they do now.
 */
#define PROCESSES_GROWTH (PROCESS_OFF_SAVES / (1 - PROCESS_OFF_SAVES))

// By how much of itself the overhead of the knob's program grows at its next step up.
static double part_added(const struct load_shedding *shedding, enum knob knob,
			 const struct governor_reading *reading)
{
	uint32_t step = shedding->steps[knob];

	switch (knob) {
	case KNOB_OFF_CPU_UNWIND:
		return reading->off_cpu_unwind * (1 / STEP_RATIO - 1);
	case KNOB_PAGE_FAULTS_UNWIND:
		return 1 / STEP_RATIO - 1;
	case KNOB_CPU_FREQUENCY:
		return (double)shedding->frequencies[step - 1] / shedding->frequencies[step] - 1;
	case KNOB_PROCESS_OFF_CPU:
		return PROCESSES_GROWTH;
	default:
		return 0;
	}
}

// Detail of what is not recorded at all: unknown.
static bool lies_off(const struct load_shedding *shedding, enum knob knob)
{
	switch (knob) {
	case KNOB_PAGE_FAULTS_UNWIND:
		return shedding->steps[KNOB_PAGE_FAULTS];
	case KNOB_OFF_CPU_UNWIND:
	case KNOB_PROCESS_OFF_CPU:
	case KNOB_WAKERS:
		return shedding->steps[KNOB_OFF_CPU];
	default:
		return false;
	}
}

// As much as before for each event, of which the kernel counts how many there are now.
static double growth_of_switch(const struct load_shedding *shedding, enum knob knob,
			       const struct governor_reading *reading)
{
	double before = shedding->before_off[knob].rate, now = rate_of(knob, reading);

	if (before <= 0 || now <= 0)
		return INFINITY;
	return shedding->before_off[knob].overhead * now / before;
}

double load_shedding_growth(const struct load_shedding *shedding, enum knob knob,
			    const struct governor_reading *reading)
{
	struct governor_reading copy = *reading;

	if (!shedding->steps[knob] || lies_off(shedding, knob))
		return INFINITY;
	if (is_switch(knob))
		return growth_of_switch(shedding, knob, reading);
	return part_added(shedding, knob, reading) * with_agent(reading, *program_of(knob, &copy));
}

void load_shedding_step_up(struct load_shedding *shedding, enum knob knob,
			   struct governor_reading *expected)
{
	double *program = program_of(knob, expected);
	double part = part_added(shedding, knob, expected);

	if (is_switch(knob)) {
		double growth = growth_of_switch(shedding, knob, expected);

		*program += isfinite(growth) ? growth : 0;
	} else {
		expected->agent += part * agent_part(expected, *program);
		*program *= 1 + part;
	}
	if (knob == KNOB_OFF_CPU_UNWIND)
		expected->off_cpu_unwind /= STEP_RATIO * (1 + part);
	shedding->steps[knob] -= knob == KNOB_PROCESS_OFF_CPU ? shedding->steps[knob] : 1;
}
