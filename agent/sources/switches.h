// SPDX-License-Identifier: Apache-2.0
// The kernel programs of the wall clock (bpf/switch/switches.bpf.c): what each thread did with its time,
// counted into the sampler's maps. Uses libbpf, as loader.c does. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/kallsyms.h"
#include "agent/bpf/loader.h"
#include "agent/sources/source.h"
#include "base/error.h"
#include "base/event_log.h"

struct switches;

struct switches_options {
	uint64_t slot_ns;
	bool only_targets;               // as the sampler: only processes that are followed
	const struct kallsyms *kallsyms; // NULL: stacks begin in the scheduler
	struct event_log *events;        // may be NULL
	// For tests: begin with what is tried when kernels refuse better.
	bool raw_tracepoints;
	enum loader_level level; // if the loader's is not less
};

/**
 * Load the programs beside the sampler of @loader, which outlives them, attach them, and begin the
 * accounting of the threads that are there. Returns 0 or a negative errno.
 */
int switches_open(const struct loader *loader, const struct switches_options *options,
		  struct switches **ret_switches, struct error *err);
/** NULL is allowed. */
void switches_close(void *switches);

/**
 * Account for all threads up to now and count it. To be called before the count maps are swapped:
 * a window then has all the time up to its end. Returns 0 or a negative errno.
 */
int switches_sweep(void *switches);

/**
 * Stop accounting, or begin anew: what threads did meanwhile is not told. What was set stays so. Returns
 * 0 or a negative errno; then it does not run.
 */
int switches_set_running(void *switches, bool on);

/** Now and then: threads that sleep with a cut stack get a whole one, if it can be had by now. */
void switches_tick(void *switches, uint64_t now_ns);

/** What is kept of threads (bpf/switch/thread.bpf.h), for programs beside these. Owned by the switches. */
int switches_threads_fd(const struct switches *switches);

/** What was not refused; the loader's level or a higher one. */
enum loader_level switches_level(const struct switches *switches);

/** Of the waits one in 4^step gets a stack and stands for the others. Totals stay exact. */
void switches_set_step(void *switches, uint32_t step);

/** Waits of this process get no stacks, or do again; its totals stay. Returns 0 or a negative errno. */
int switches_set_process(void *switches, uint32_t pid, bool on);

extern const struct source switches_source;
