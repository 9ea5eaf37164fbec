// SPDX-License-Identifier: Apache-2.0
// Keeps the agent within its overhead budget: measures the overhead (bpf_cost.h, own_cpu.h), asks the governor
// (governor.h), turns the knobs, and exports all that beside the data that is affected. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/export_interval.h"
#include "base/contract/knobs.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"
#include "bpf/bpf_counters.h"
#include "bpf/sample.h"

/** How knobs are turned. A negative errno: it cannot be turned; it is not tried again before the next change. */
struct budget_controls {
	/** KNOB_OFF_CPU_UNWIND, KNOB_PAGE_FAULTS_UNWIND: capture a quarter of the stacks at each step; 0: all. */
	int (*set_step)(void *context, enum knob knob, uint32_t step);
	/** KNOB_PROCESS_OFF_CPU: capture no off-CPU stacks of this process, or do again. */
	int (*set_process)(void *context, uint32_t pid, bool on);
	/** KNOB_WAKERS, KNOB_PAGE_FAULTS, KNOB_OFF_CPU: stop a source or let it go on; steps and processes stay set. */
	int (*set_running)(void *context, enum knob knob, bool on);
	int (*set_frequency)(void *context, uint32_t frequency_hz);
	/** What the BPF programs counted so far; for estimates where the kernel measures no run times. */
	void (*read_counters)(void *context, uint64_t ret_counters[COUNTER_COUNT]);
	void *context;
};

struct budget_options {
	double percent;        // of one core; 0: governor_default_budget()
	uint32_t frequency_hz; // of sampling, as asked for
	uint32_t knobs;        // KNOB_BIT() of those that can be turned
	uint64_t
		interval_ns; // of the governor; 0: GOVERNOR_DEFAULTS. Its other times are in proportion
	const struct labels *labels; // for its series, beside its own (--label); outlives this
	struct event_log *events;    // each change, and why; may be NULL
	struct budget_controls controls;
};

/** Of one core; all but the first two are of the governor's last interval. */
struct budget_stats {
	double budget;
	uint32_t cores;
	double overhead, agent; // `agent`: its own CPU time
	uint32_t level;         // shedding steps: 0 when nothing is shed
	uint32_t frequency_hz;
	uint32_t steps[KNOB_GOVERNED]; // of KNOB_PROCESS_OFF_CPU: how many processes
	uint64_t changes;              // since the start
	uint64_t changes_lost;         // not exported: too many in one interval
	uint64_t programs_unmeasured;  // bpf_cost_unmeasured()
	bool estimated;                // the kernel measures no run times of programs
};

struct budget;

/** Returns 0 or -ENOMEM. */
int budget_open(const struct budget_options *options, struct budget **ret_budget,
		struct error *err);
/** The knobs stay as they are. NULL is allowed. */
void budget_close(void *budget);

/** A boost began, changed or ended. */
struct budget_boost {
	uint32_t frequency_hz; // not below that of the options
	double percent;        // the budget meanwhile; 0: that of the options
	uint32_t knobs;        // KNOB_BIT() of those that can be turned now
};

void budget_set_boost(struct budget *budget, const struct budget_boost *boost);
/**
 * The budget of a boost, if nobody says, in percent of one core: governor_default_boost_budget(); four times the budget of the
 * options if they have one.
 */
double budget_boost_percent(const struct budget *budget);

/** Call it ten times a second or more; now and then it takes 10 ms, see bpf_cost_tick(). */
void budget_tick(void *budget, uint64_t now_ns);

/** A count of the interval: which processes switch how often. */
void budget_take_count(void *budget, const struct count_key *key, const struct count *count);
/** The interval ends now. */
int budget_before_drain(void *budget);
/** What it cost, and what was changed. Returns 0 or a negative errno. */
int budget_after_drain(void *budget, struct export_interval *interval);

void budget_read_stats(const struct budget *budget, struct budget_stats *ret_stats);
