// SPDX-License-Identifier: Apache-2.0
// Which shedding steps are active, and what the next step down would save or the next step up would cost,
// estimated from a reading of the overhead. Pure. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/knobs.h"

/** The last resorts begin here: from this knob to KNOB_GOVERNED. */
#define LAST_RESORTS KNOB_PAGE_FAULTS

enum {
	SHEDDING_UNWIND_STEPS = 3,   // each a quarter of the one before
	SHEDDING_SAMPLING_STEPS = 7, // with one to the agent's own rate, while a boost raises it
	SHEDDING_PROCESSES_MAX = 16, // worst first: the seventeenth matters little
	GOVERNOR_WORST_MAX = 8,      // processes of a reading
};

struct governor_process {
	uint32_t pid;
	char name[KNOB_COMM_BYTES];
	double share; // of the switches
};

/** Overhead of one core, over the time since the reading before. */
struct governor_reading {
	uint64_t elapsed_ns;
	double sampling;
	double off_cpu;        // the program for context switches
	double off_cpu_unwind; // the part of that which unwinds stacks, 0 to 1
	double page_faults;
	double wakers; // the program for wake-ups
	double other;  // other BPF programs
	double agent;  // the agent's CPU time
	// Of the whole machine a second, by the kernel's own count; 0: unknown.
	double switches, faults;
	// The processes that switch most and whose stacks are on, worst first.
	struct governor_process worst[GOVERNOR_WORST_MAX];
	uint32_t worst_count;
};

struct load_shedding {
	uint32_t frequencies[SHEDDING_SAMPLING_STEPS + 1]; // by step
	uint32_t steps[KNOB_GOVERNED], steps_max[KNOB_GOVERNED];
	struct governor_process off[SHEDDING_PROCESSES_MAX];
	// What was switched off whole: its overhead then, and the rate that this followed from.
	struct {
		double overhead, rate;
	} before_off[KNOB_GOVERNED];
};

/** Nothing is shed. @knobs: KNOB_BIT() of those that can be turned; CPU sampling always can. */
void load_shedding_init(struct load_shedding *shedding, uint32_t frequency_hz, uint32_t knobs);

/** CPU sampling at @frequency_hz, unshed; its steps lead through @own_hz, the rate without a boost. */
void load_shedding_set_rate(struct load_shedding *shedding, uint32_t frequency_hz, uint32_t own_hz);
/** Other knobs can be turned: sources came, or went with what was shed of them. */
void load_shedding_set_knobs(struct load_shedding *shedding, uint32_t knobs);

double overhead_of_programs(const struct governor_reading *reading);
double overhead_of(const struct governor_reading *reading);

bool load_shedding_can_step_down(const struct load_shedding *shedding, enum knob knob,
				 const struct governor_reading *reading);

/** How much less the overhead would be after the knob's next step down; 0: it has none. */
double load_shedding_saving(const struct load_shedding *shedding, enum knob knob,
			    const struct governor_reading *reading);

/** Go that step; @expected becomes what the reading would be after it. */
void load_shedding_step_down(struct load_shedding *shedding, enum knob knob,
			     struct governor_reading *expected);

/** How much more it would be after the next step up, for processes that of all. INFINITY: unknown, or there is none. */
double load_shedding_growth(const struct load_shedding *shedding, enum knob knob,
			    const struct governor_reading *reading);

/** Go that step; @expected becomes what the reading would be after it. */
void load_shedding_step_up(struct load_shedding *shedding, enum knob knob,
			   struct governor_reading *expected);
