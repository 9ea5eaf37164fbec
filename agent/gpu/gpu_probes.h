// SPDX-License-Identifier: Apache-2.0
// Uprobes in the files of the CUDA driver, NCCL and the CUPTI helper: one at each known function of a file,
// at its cheapest site (probe_site.h), for all processes at once. Probes of launches and of frequent
// calls get a duty cycle (probe_duty_cycle.h). One thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/gpu/gpu_calls.h"
#include "agent/gpu/gpu_driver.h"
#include "agent/gpu/probed_file.h"
#include "base/error.h"
#include "base/event_log.h"
#include "bpf/gpu/gpu_call.h"

/** Cores for probes that are always attached, and the same again for duty-cycled ones, by default. */
#define GPU_PROBES_BUDGET 0.005

struct gpu_probes_options {
	struct probed_file_options files;
	double budget; // in cores; 0: GPU_PROBES_BUDGET
	/** Runs of the programs so far by kind of call, entries plus returns. Returns 0 or -errno. */
	int (*read_hits)(void *context, uint64_t ret_hits[GPU_CALL_COUNT]);
	/** From now on probes with GPU_CALL_DUTY_CYCLED count in this on phase. */
	void (*set_on_phase)(void *context, const struct gpu_on_phase *phase);
	/**
	 * From now on probes without GPU_CALL_DUTY_CYCLED count only if their GPU_CALL_GENERATION is this one;
	 * the others are detached next. NULL: a call may count twice while both are attached.
	 */
	void (*set_generation)(void *context, uint32_t generation);
	/** Stream captures begun so far; NULL: captured launches are not probed. */
	uint64_t (*read_captures)(void *context);
	/** Probes with GPU_CALL_CAPTURES see captured launches from now on, or no longer. */
	void (*set_sees_captures)(void *context, bool sees);
	void *context;
	struct event_log *events; // may be NULL
};

/** As of now, unless a comment says otherwise. */
struct gpu_probes_stats {
	uint32_t files;       // with probes
	uint32_t shared;      // reached by another path, so they share its probes
	uint32_t functions;   // probed in any file, always or duty-cycled
	uint32_t expensive;   // of these: the kernel single-steps the instruction
	uint64_t refused;     // probes that the kernel refused since the start
	uint32_t duty_cycled; // kinds of calls, launches aside
	uint32_t off;         // kinds too frequent even for a duty cycle
	uint32_t weight;      // of each call in an on phase
	uint64_t on_phases;   // since the start
	uint64_t hits;        // entries plus returns since the start
	uint64_t
		cost_ns; // CPU time that the probes took from processes since the start, programs aside
	double budget; // in cores, once for probes always attached and once for duty-cycled ones
	double cost;   // in cores, as last measured
};

struct gpu_probes;

/** Returns 0; -E2BIG past PROBED_FILE_CALLS_MAX; -ENOMEM. */
int gpu_probes_open(const struct gpu_probes_options *options, struct gpu_probes **ret_probes,
		    struct error *err);
/** Detaches all probes: some 20 ms for each link. NULL is allowed. */
void gpu_probes_close(struct gpu_probes *probes);

/** For a struct gpu_driver_listener: a file appears or disappears. One that cannot be probed is an event. */
void gpu_probes_add(void *probes, const struct gpu_driver *driver);
void gpu_probes_remove(void *probes, const struct gpu_driver *driver);

/** Some 50 times a second: runs the duty cycle and measures costs. */
void gpu_probes_tick(struct gpu_probes *probes, uint64_t now_ns);

/** Are probes of all kinds from @first to @last always attached? */
bool gpu_probes_see_all(const struct gpu_probes *probes, enum gpu_call first, enum gpu_call last);

void gpu_probes_read_stats(const struct gpu_probes *probes, struct gpu_probes_stats *ret_stats);
