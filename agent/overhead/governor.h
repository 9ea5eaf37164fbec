// SPDX-License-Identifier: Apache-2.0
// Keeps the agent within its budget: readings of what it costs go in, changes of what it does come
// out. A ladder of knobs is stepped down fast, skipping what would not help, and up slowly. Pure: it
// knows no clock and no kernel. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/** In the order in which they are turned; the last two are for when the others do not suffice. */
enum governor_knob {
	GOVERNOR_WAKERS,     // who ends waits is not told
	GOVERNOR_STACKS,     // fewer of the stacks of waits are taken; times stay exact
	GOVERNOR_FAULTS,     // fewer page faults
	GOVERNOR_SAMPLING,   // fewer samples of the CPU
	GOVERNOR_PROCESSES,  // processes of whose waits no stacks are taken; a step is a process
	GOVERNOR_FAULTS_OFF, // no page faults at all
	GOVERNOR_WAITS_OFF,  // no wall clock at all
	GOVERNOR_KNOBS,
};

/** The last resorts begin here. */
#define GOVERNOR_LADDER_END GOVERNOR_FAULTS_OFF

enum {
	GOVERNOR_STACK_STEPS = 3, // each a quarter of the one before
	GOVERNOR_FAULT_STEPS = 3, // likewise
	GOVERNOR_SAMPLING_STEPS = 4,
	GOVERNOR_PROCESSES_MAX = 16, // worst first: the seventeenth costs next to nothing
	GOVERNOR_WORST_MAX = 8,      // processes of a reading
	GOVERNOR_CHANGES_MAX = 24,   // of a decision: all steps there are, but not all processes
	GOVERNOR_NAME_BYTES = 16,
	GOVERNOR_TEXT_BYTES = 240,
};

struct governor_options {
	double budget;         // of one core: 0.02 is 2 % of it
	uint32_t frequency_hz; // as asked for
	// What there is to turn.
	bool wakers;          // who ends waits is told of some services
	bool stacks;          // the stacks of waits can be fewer
	bool faults;          // those of page faults, too
	bool processes;       // processes can be left out
	bool waits;           // the program for context switches runs, and can be taken away
	uint64_t interval_ns; // between readings
	uint64_t calm_ns;     // below half the budget for so long: a step up
	uint64_t over_ns; // at the floor and above twice the budget for so long: a lane is given up
	uint64_t retry_ns; // and tried again after so long, at first
};

/** The agent's own. */
#define GOVERNOR_DEFAULTS                                                 \
	.interval_ns = 10 * NS_PER_SECOND, .calm_ns = 60 * NS_PER_SECOND, \
	.over_ns = 30 * NS_PER_SECOND, .retry_ns = 300 * NS_PER_SECOND

/** The default budget, of one core, on a machine of so many: 1 % for each eight, at least 2 %. */
double governor_default_budget(uint32_t cores);

struct governor_process {
	uint32_t pid;
	char name[GOVERNOR_NAME_BYTES];
	double share; // of the switches
};

/** Costs are of one core, over the time since the reading before. */
struct governor_reading {
	uint64_t elapsed_ns;
	double sampling;
	double waits;  // the program for context switches
	double stacks; // the part of that which goes into stacks, 0 to 1
	double faults;
	double wakers; // the program for wake-ups
	double rest;   // other kernel programs
	double own;    // the agent's CPU time
	// The processes that switch most and have not lost it yet, worst first.
	struct governor_process worst[GOVERNOR_WORST_MAX];
	uint32_t worst_count;
};

struct governor_change {
	enum governor_knob knob;
	uint32_t step; // the knob's new one; for processes how many are off
	bool down;
	struct governor_process process;
};

enum governor_outcome {
	GOVERNOR_KEEP,
	GOVERNOR_CHANGE, // what and why is in the decision
	GOVERNOR_FLOOR, // too much, and nothing is left that would help: said once, until it is over
	GOVERNOR_OVER,  // what was too much without a remedy is over
};

struct governor_decision {
	enum governor_outcome outcome;
	struct governor_change changes[GOVERNOR_CHANGES_MAX];
	uint32_t change_count;
	char why[GOVERNOR_TEXT_BYTES]; // in a sentence's words with figures
};

/** To be read by others; written by the functions below. */
struct governor {
	struct governor_options options;
	uint32_t frequencies[GOVERNOR_SAMPLING_STEPS + 1]; // by step
	uint32_t steps[GOVERNOR_KNOBS], steps_max[GOVERNOR_KNOBS];
	struct governor_process off[GOVERNOR_PROCESSES_MAX];
	double wakers_cost;   // when they were switched off
	double cost;          // of the last reading
	uint64_t changes;     // so far
	uint64_t now_ns;      // sum of the readings' times
	uint64_t calm_ns;     // below half the budget for so long
	uint64_t calm_needed; // more each time that a step up was too early
	uint64_t last_up_ns, last_down_ns;
	uint64_t floor_ns;               // too much without a remedy for so long
	uint64_t twice_ns;               // of that, above twice the budget without a break
	uint64_t off_ns[GOVERNOR_KNOBS]; // when a last resort was taken
	uint64_t retry_wait_ns[GOVERNOR_KNOBS];
	bool over_before;
	bool floor_told;
};

void governor_init(struct governor *governor, const struct governor_options *options);

/** What is to be done after @reading. It is taken as done. */
void governor_decide(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *ret_decision);

/** A process that was switched off has ended. False: it was not. */
bool governor_forget_process(struct governor *governor, uint32_t pid,
			     struct governor_change *ret_change);

/** Steps down in all: 0 when everything is on. */
uint32_t governor_level(const struct governor *governor);
/** What is less than all, as the changes that lead there from nothing; returns how many. */
uint32_t governor_in_force(const struct governor *governor,
			   struct governor_change ret_changes[GOVERNOR_CHANGES_MAX]);
uint32_t governor_frequency_hz(const struct governor *governor);
/** Is the whole lane of a last resort off? */
bool governor_is_off(const struct governor *governor, enum governor_knob knob);

/** "sampling at 49 Hz", "stacks of waits of nginx (4711) off": what is so from now on. */
void governor_describe(const struct governor *governor, const struct governor_change *change,
		       char text[GOVERNOR_TEXT_BYTES]);
