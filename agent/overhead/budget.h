// SPDX-License-Identifier: Apache-2.0
// Keeps the agent within its budget: measures what it costs (bpf_cost.h, own_cpu.h), asks the governor
// (governor.h) and does what it says; and puts all that into the windows, beside the data that is
// affected. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"
#include "bpf/counters.h"
#include "bpf/sample.h"

#define LABEL_CHANGE "change"

/** Lanes as the governor knows them. */
enum budget_lane { BUDGET_WAITS, BUDGET_FAULTS, BUDGET_WAKERS };

/** The knobs. A negative errno says that it cannot be turned; it is not tried again before the next change. */
struct budget_controls {
	/** From now on a quarter of the stacks at each step; 0: all. */
	int (*set_step)(void *context, enum budget_lane source, uint32_t step);
	/** No stacks of this process's waits are taken, or again. */
	int (*set_process)(void *context, uint32_t pid, bool on);
	/** The lane's programs are taken away, or come again; steps and processes stay as they were set. */
	int (*set_lane)(void *context, enum budget_lane source, bool on);
	int (*set_frequency)(void *context, uint32_t frequency_hz);
	/** What the kernel programs counted so far; for where the kernel tells no costs. */
	void (*read_counters)(void *context, uint64_t ret_counters[COUNTER_COUNT]);
	void *context;
};

struct budget_options {
	double percent;        // of one core; 0: governor_default_budget()
	uint32_t frequency_hz; // of sampling, as asked for
	bool wakers, stacks, faults, processes,
		waits; // what there is to turn, as in governor_options
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
	double cost, own;
	uint32_t level; // steps down: 0 when everything is on
	uint32_t frequency_hz;
	uint32_t processes_off;
	bool waits_off, faults_off;
	uint64_t changes;      // since the start
	uint64_t changes_lost; // that are in no window, because too many came in one
	bool estimated;        // the kernel tells no costs of programs
};

struct budget;

/** Returns 0 or -ENOMEM. */
int budget_open(const struct budget_options *options, struct budget **ret_budget,
		struct error *err);
/** The knobs stay as they are. NULL is allowed. */
void budget_close(void *budget);

/** Call it ten times a second or more; now and then it takes 10 ms, see bpf_cost_tick(). */
void budget_tick(void *budget, uint64_t now_ns);

/** A count of the window: who waits how often. */
void budget_take_count(void *budget, const struct count_key *key, const struct count *count);
/** The window ends now. */
int budget_before_drain(void *budget);
/** What it cost, and what was changed. Returns 0 or a negative errno. */
int budget_after_drain(void *budget, struct export_interval *interval);

void budget_read_stats(const struct budget *budget, struct budget_stats *ret_stats);
