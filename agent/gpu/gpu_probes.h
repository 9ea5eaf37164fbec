// SPDX-License-Identifier: Apache-2.0
// Probes in the files of the GPU's driver: at each function of the table that a file has, at the
// cheapest place in it (probe_site.h), once for all processes; those of launches, and of what is
// called too often, in windows only (probe_duty_cycle.h). One thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/gpu/gpu_calls.h"
#include "agent/gpu/gpu_driver.h"
#include "agent/probes/probe_cost.h"
#include "agent/probes/probe_link.h"
#include "base/error.h"
#include "base/event_log.h"
#include "bpf/gpu/gpu_call.h"

enum {
	GPU_PROBES_NAMES_MAX = 320, // rows of the table of calls
};

/** Of a core, for probes that are always there, and as much for windows, unless another is set. */
#define GPU_PROBES_BUDGET 0.005

/** The kernel programs by kind of call; one may be there many times. -1: none. Not owned. */
struct gpu_probe_programs {
	int entry_fds[GPU_CALL_COUNT];
	int return_fds[GPU_CALL_COUNT];
};

struct gpu_probes_options {
	enum probe_way way; // probe_link_choose()
	struct probe_cost cost;
	const struct gpu_call_symbol *calls; // outlives the probes
	size_t call_count;
	struct gpu_probe_programs programs;
	double budget; // of a core; 0: GPU_PROBES_BUDGET
	/** How often programs have run so far, entries and returns, by kind of call. 0 or -errno. */
	int (*read_hits)(void *context, uint64_t ret_hits[GPU_CALL_COUNT]);
	/** From now on calls of probes with GPU_CALL_WINDOWED count in this window. */
	void (*set_window)(void *context, const struct gpu_window *window);
	/**
	 * From now on, of probes without GPU_CALL_WINDOWED those count whose flags have the same
	 * GPU_CALL_GENERATION; the others are detached then. NULL: calls may count twice meanwhile.
	 */
	void (*set_generation)(void *context, uint32_t generation);
	/** How many captures of graphs have begun so far; NULL: launches in captures are not looked for. */
	uint64_t (*read_captures)(void *context);
	/** Launches that are captured are seen from now on, by probes with GPU_CALL_CAPTURES; or no longer. */
	void (*set_sees_captures)(void *context, bool sees);
	void *context;
	struct event_log *events; // may be NULL
};

/** What there is now, unless said otherwise. */
struct gpu_probes_stats {
	uint32_t files;     // that are probed
	uint32_t shared;    // that are another one's by another path: its probes are theirs, too
	uint32_t functions; // probed in any of them, always or in windows
	uint32_t expensive; // of these, where the kernel steps through the instruction
	uint64_t refused;   // by the kernel, since the start
	uint32_t windowed;  // kinds of calls that are seen in windows only, launches aside
	uint32_t off;       // kinds of calls that are too hot even for that
	uint32_t weight;    // of windows: each call in one stands for so many
	uint64_t windows;   // since the start
	uint64_t hits;      // likewise, entries and returns
	uint64_t cost_ns;   // likewise: what they took from the processes, programs aside
	double budget;      // of a core, each for probes that are always there and for windows
	double cost;        // of a core, when it was last looked at
};

struct gpu_probes;

/** Returns 0; -E2BIG past GPU_PROBES_NAMES_MAX; -ENOMEM. */
int gpu_probes_open(const struct gpu_probes_options *options, struct gpu_probes **ret_probes,
		    struct error *err);
/** Detaches all of them, which takes some 20 ms for each link. NULL is allowed. */
void gpu_probes_close(struct gpu_probes *probes);

/**
 * A file has come, or goes; for a struct gpu_driver_listener. A file that cannot be probed is an
 * event.
 */
void gpu_probes_add(void *probes, const struct gpu_driver *driver);
void gpu_probes_remove(void *probes, const struct gpu_driver *driver);

/** Some 50 times a second: windows open and close, and costs are looked at. */
void gpu_probes_tick(struct gpu_probes *probes, uint64_t now_ns);

/** Is each call of these kinds seen now, from the first to the last? Not while one is seen in windows only. */
bool gpu_probes_see_all(const struct gpu_probes *probes, enum gpu_call first, enum gpu_call last);

void gpu_probes_read_stats(const struct gpu_probes *probes, struct gpu_probes_stats *ret_stats);
