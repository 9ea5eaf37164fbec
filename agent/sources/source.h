// SPDX-License-Identifier: Apache-2.0
// A source: something that is measured beside on-CPU samples. Each one exports a `const struct source`
// from its own file, and agent/source_table.c lists it. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/loader.h"
#include "agent/process/process_table.h"
#include "agent/stacks/export_interval.h"
#include "agent/symbols/kallsyms.h"
#include "base/error.h"
#include "base/event_log.h"
#include "base/labels.h"

struct gpu_kernel_request;
struct gpu_namer;
struct sources;

/** What runs is a set of these. Sources of one bit start and stop together. */
enum source_bit {
	SOURCE_WALL = 1 << 0,     // what threads do with their time
	SOURCE_MEMORY = 1 << 1,   // memory growth by page faults
	SOURCE_WAKERS = 1 << 2,   // wakers of blocked threads; needs SOURCE_WALL
	SOURCE_GOVERNOR = 1 << 3, // keeps the agent within its overhead budget
	SOURCE_SERIES = 1 << 4, // numbers without stacks; comes with SOURCE_WALL and SOURCE_MEMORY
	SOURCE_GPU = 1 << 5,    // GPU telemetry (NVML)
	SOURCE_GPU_CALLS = 1 << 6, // calls of the GPU driver
};

/** What sources are opened with. It outlives them. */
struct source_setup {
	const struct loader *loader; // whose maps their BPF programs share
	struct process_table *processes;
	const struct kallsyms *kallsyms; // NULL: the kernel's functions have no names
	struct gpu_namer *gpu_namer; // set by the source that names GPU kernels; NULL: nobody asks
	struct sources *sources;     // all of them; set by sources_open()
	uint32_t bits;               // that are opened; set by sources_open()
	uint64_t slot_ns;
	const char *wakers; // services whose threads' wakers are recorded, by commas; NULL: none
	bool only_targets;  // only processes that the sampler selects (`cairn record -p`)
	bool begins_later;  // sources with a set_running() measure from sources_begin() on
	const struct labels *labels;    // --label; copied
	struct event_log *events;       // may be NULL
	double overhead_budget_percent; // of one core; 0: the default
	uint64_t overhead_interval_ns;
	uint64_t cupti_interval_ns; // between CUPTI sessions of a process; 0: the default
	struct gpu_kernel_request *gpu_kernel_request; // the only session; NULL: none
	uint32_t frequency_hz;                         // of on-CPU samples
	int (*set_frequency)(void *context, uint32_t frequency_hz);
	void *context;
};

/** What a source does; @state is what its open() returned. A function that it does not need is NULL. */
struct source {
	const char *name; // the subject of its events: "wall"
	uint32_t bit;     // enum source_bit
	uint32_t needs;   // bits of sources before it, with which it is closed and opened
	/** With @setup->begins_later, set_running() comes later. Returns 0, or a negative errno and @err. */
	int (*open)(const struct source_setup *setup, void **ret_state, struct error *err);
	/** NULL is allowed. */
	void (*close)(void *state);
	/**
	 * Stop, or go on, without loading its programs again: a kernel takes a second of CPU to verify a
	 * large one. Settings stay. Where this is NULL the source is closed and opened.
	 */
	int (*set_running)(void *state, bool on);
	/** The count maps are about to be swapped: count what is due. Returns 0 or a negative errno. */
	int (*before_drain)(void *state);
	/** All counts are in @interval, which ends now: add what the kernel does not count. */
	int (*after_drain)(void *state, struct export_interval *interval);
	/** Each count that is drained. */
	void (*take_count)(void *state, const struct count_key *key, const struct count *count);
	/** Each fork, exec and exit, before the process table applies it. */
	void (*take_process)(void *state, const struct process_record *record);
	/** Some 50 times a second. */
	void (*tick)(void *state, uint64_t now_ns);
	/** Load shedding: one stack in 4^step is unwound, with its weight. Totals stay exact. */
	void (*set_step)(void *state, uint32_t step);
	/** Load shedding: leave this process out of the most expensive part, or take it in again. */
	int (*set_process)(void *state, uint32_t pid, bool on);
};
