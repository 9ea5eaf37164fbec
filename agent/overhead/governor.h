// SPDX-License-Identifier: Apache-2.0
// Decides which load the agent sheds to stay within its overhead budget: readings of the overhead go in,
// changes of knobs (base/contract/knobs.h) come out. Knobs are stepped down fast, without those that would
// not help, and back up as soon as what the step up would cost (load_shedding.h) has fitted for a minute.
// Pure: it knows no clock and no kernel. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/overhead/load_shedding.h"
#include "base/clock.h"
#include "base/contract/knobs.h"

enum {
	GOVERNOR_CHANGES_MAX = 24, // of a decision: one of each knob, and all processes
	GOVERNOR_TEXT_BYTES = 240,
};

struct governor_options {
	double budget;         // of one core: 0.02 is 2 % of it; a boost's while one is active
	uint32_t frequency_hz; // of CPU sampling, unshed, without a boost
	uint32_t knobs;        // KNOB_BIT() of those that can be turned; CPU sampling always can
	uint64_t interval_ns;  // between readings
	uint64_t calm_ns;      // a step up has fitted for so long: it is made
	uint64_t over_ns;      // above the budget for so long, nothing else left: CPU sampling;
			       // above twice the budget: a last resort
	uint64_t retry_ns;     // a last resort is undone after so long, at first
};

/** The agent's own. */
#define GOVERNOR_DEFAULTS                                                 \
	.interval_ns = 10 * NS_PER_SECOND, .calm_ns = 60 * NS_PER_SECOND, \
	.over_ns = 30 * NS_PER_SECOND, .retry_ns = 300 * NS_PER_SECOND

/** The default budget, of one core, on a machine of so many: 1 % for each eight, at least 2 %. */
double governor_default_budget(uint32_t cores);
/**
 * While a boost is active: 4 % of the machine, and four times the budget above. Deep stacks at 999 Hz cost that on CPUs that
 * are all busy.
 */
double governor_default_boost_budget(uint32_t cores);

struct governor_change {
	enum knob knob;
	uint32_t step; // the knob's new one; of KNOB_PROCESS_OFF_CPU how many are off
	bool down;
	struct governor_process process;
};

enum governor_outcome {
	GOVERNOR_KEEP,
	GOVERNOR_CHANGE,
	GOVERNOR_EXCEEDED, // above the budget, and no step would help: once, until it is met or one would
	GOVERNOR_MET, // the budget is met again
};

struct governor_decision {
	enum governor_outcome outcome;
	struct governor_change changes[GOVERNOR_CHANGES_MAX];
	uint32_t change_count;
	const char *what;              // for a log line: "shedding load"
	char why[GOVERNOR_TEXT_BYTES]; // its figures
};

/** To be read by others; written by the functions below. */
struct governor {
	struct governor_options options;
	struct load_shedding shed;
	double overhead;                // of the last reading
	uint64_t changes;               // so far
	uint64_t now_ns;                // sum of the readings' times
	uint64_t over_ns;               // above the budget for so long
	uint64_t calm_ns;               // a step up has fitted for so long
	double recoveries;              // that may begin now: so many an hour, see RECOVERY_CALMS
	bool recovering;                // the last change was a step up
	uint64_t last_up_ns;            // 0: none yet
	uint64_t last_down_ns;          // 0: none yet
	uint64_t exceeded_ns;           // above the budget with nothing left to shed for so long
	uint64_t twice_ns;              // of that, above twice the budget without a break
	uint64_t off_ns[KNOB_GOVERNED]; // when it was switched off
	uint64_t retry_wait_ns[KNOB_GOVERNED];
	bool exceeded; // as it was decided
};

void governor_init(struct governor *governor, const struct governor_options *options);

/** What a boost changes for its time. */
struct governor_target {
	uint32_t frequency_hz; // of CPU sampling, unshed; not below the agent's own
	double budget;
	uint32_t knobs; // KNOB_BIT() of those that can be turned
};

/**
 * From now on hold the overhead within the target's budget, at its rate. A rate above governor_options.frequency_hz is the
 * first that is shed.
 */
void governor_set_target(struct governor *governor, const struct governor_target *target);

/** What to change after @reading. The governor takes it as done. */
void governor_decide(struct governor *governor, const struct governor_reading *reading,
		     struct governor_decision *ret_decision);

/** A process that was switched off has ended. False: it was not. */
bool governor_drop_process(struct governor *governor, uint32_t pid,
			   struct governor_change *ret_change);

/** Shedding steps in all: 0 when nothing is shed. */
uint32_t governor_level(const struct governor *governor);
/** The active shedding steps, as the changes that lead there; returns how many. */
uint32_t governor_shedding(const struct governor *governor,
			   struct governor_change ret_changes[GOVERNOR_CHANGES_MAX]);
uint32_t governor_frequency_hz(const struct governor *governor);
/** Is a last resort taken? */
bool governor_is_off(const struct governor *governor, enum knob knob);

/** What the knob of @change is set to from then on. */
void governor_setting(const struct governor *governor, const struct governor_change *change,
		      struct knob_setting *ret_setting);
