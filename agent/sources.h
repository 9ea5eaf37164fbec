// SPDX-License-Identifier: Apache-2.0
// What runs beside the on-CPU sampler: one lane for each thing that is measured. A lane that a
// kernel refuses posts an event, and the rest runs. The profiler knows no lane by name: who adds
// one adds a row to the table in source_kinds.c. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/overhead/budget.h"
#include "agent/symbols/kallsyms.h"
#include "agent/gpu/gpu_kernel_request.h"
#include "agent/bpf/loader.h"
#include "agent/process/process.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"
#include "base/event_log.h"

/** Bits of profiler_options.lanes. */
enum source_bit {
	SOURCE_WALL = 1 << 0,   // what threads do with their time (agent/sources/switches.h)
	SOURCE_MEMORY = 1 << 1, // what page faults bring into memory (agent/sources/page_faults.h)
	SOURCE_WAKERS = 1 << 2, // who ends waits (agent/sources/wakers.h): with the wall
	SOURCE_GOVERNOR = 1 << 3, // what the agent costs, and keeping it within a budget
	SOURCE_SERIES =
		1
		<< 4, // numbers without stacks (agent/sources/stackless_series.h): with the wall and memory
	SOURCE_GPU = 1 << 5,       // what GPUs do, as their driver tells (agent/gpu/gpu_usage.h)
	SOURCE_GPU_CALLS = 1 << 6, // what is asked of them, by stack (agent/gpu/gpu_source.h)
};

/** What a lane is opened with; all of it outlives the lanes. */
struct source_setup {
	const struct loader *loader; // whose maps the lane's programs share
	struct process_table *processes;
	const struct kallsyms *kallsyms; // NULL: the kernel's functions have no names
	struct gpu_namer *gpu_namer;     // to be set by who knows names; NULL: nobody asks
	struct sources *sources;         // for the governor: what the others cost
	uint32_t bits;                   // that are opened: set by sources_open()
	uint64_t slot_ns;
	const char *wakers; // services whose wakers are told, with commas between; NULL: none
	bool only_targets;  // `cairn record -p`: only processes that are followed
	const struct labels *labels; // --label; copied
	struct event_log *events;    // of what works less well than it could; may be NULL
	// For the governor.
	double budget_percent; // of one core; 0: its default
	uint64_t governor_interval_ns;
	uint64_t kernel_period_ns; // between windows of the CUPTI helper; 0: its default
	struct gpu_kernel_request *gpu_kernel_request; // the only one; NULL: none
	uint32_t frequency_hz;                         // of sampling
	int (*set_frequency)(void *context, uint32_t frequency_hz);
	void *context;
};

/** What a lane has cost since it was opened. */
struct source_cost {
	uint64_t bpf_ns; // in its kernel programs; 0 unless kernel.bpf_stats_enabled
	uint64_t bpf_count;
};

struct sources;

/** Open the lanes of @bits, one by one; what fails is an event. 0 or -ENOMEM. */
int sources_open(uint32_t bits, const struct source_setup *setup, struct sources **ret_lanes,
		 struct error *err);
/** NULL is allowed here and in all of these. */
void sources_close(struct sources *sources);

/** enum source_bit of those that run. */
uint32_t sources_running(const struct sources *sources);

int sources_before_drain(struct sources *sources);
int sources_after_drain(struct sources *sources, struct export_interval *interval);
void sources_tick(struct sources *sources, uint64_t now_ns);
void sources_take_count(struct sources *sources, const struct count_key *key,
			const struct count *count);
/** Of the lane of this bit; zeros if it does not run. */
void sources_read_cost(const struct sources *sources, enum source_bit bit,
		       struct source_cost *ret_cost);

/** For the kinds of lanes: another one, NULL if it does not run; what they were opened with. */
void *sources_find(const struct sources *sources, enum source_bit bit);
const struct source_setup *sources_setup(const struct sources *sources);

/** Whether a lane of the bit runs, or stands still, that has the knob. */
bool sources_can_step(const struct sources *sources, enum source_bit bit);
bool sources_can_set_process(const struct sources *sources, enum source_bit bit);
/** The knobs of the lanes of a bit; -EOPNOTSUPP if one of them has none. */
int sources_set_step(struct sources *sources, enum source_bit bit, uint32_t step);
int sources_set_process(struct sources *sources, enum source_bit bit, uint32_t pid, bool on);
/**
 * Stop the lanes of a bit, or let them go on; of those that are closed and opened for that, what they
 * had set is gone. Those that never ran are left alone. Returns 0 or a negative errno.
 */
int sources_set_running(struct sources *sources, enum source_bit bit, bool on);

/** What the agent costs; false: nobody measures it. */
bool sources_read_budget(const struct sources *sources, struct budget_stats *ret_stats);
