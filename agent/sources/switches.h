// SPDX-License-Identifier: Apache-2.0
// The BPF programs of context switches (bpf/switch/switches.bpf.c): off-CPU time, run-queue latency and
// states of each thread, counted into the sampler's maps. Uses libbpf, as loader.c does. One thread.
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
	bool only_targets;               // as the sampler: only processes that are sampled
	const struct kallsyms *kallsyms; // NULL: stacks begin in the scheduler
	struct event_log *events;        // may be NULL
	bool begins_later;               // by switches_set_running()
	// For tests: start with a fallback.
	bool raw_tracepoints;
	enum loader_level level; // if the loader's is not less
};

/**
 * Load the programs beside the sampler of @loader, which outlives them. Unless @options->begins_later, attach them and
 * begin the accounting of the threads that are there. Returns 0 or a negative errno.
 */
int switches_open(const struct loader *loader, const struct switches_options *options,
		  struct switches **ret_switches, struct error *err);
/** NULL is allowed. */
void switches_close(void *switches);

/**
 * Account for all threads up to now. Call it before the count maps are swapped: the export interval then has
 * all time up to its end. Returns 0 or a negative errno.
 */
int switches_sweep(void *switches);

/**
 * Stop accounting, or start again: the time between is not accounted for. Settings stay. Returns 0 or a
 * negative errno; then it does not run.
 */
int switches_set_running(void *switches, bool on);

/** The map of thread states (bpf/switch/thread.bpf.h), for other programs. Owned by the switches. */
int switches_threads_fd(const struct switches *switches);

/** What the kernel accepted; the loader's level or a higher one. */
enum loader_level switches_level(const struct switches *switches);

/** One off-CPU interval in 4^step is unwound, with its weight. Totals stay exact. */
void switches_set_step(void *switches, uint32_t step);

/** Unwind no off-CPU intervals of this process, or do again. Totals stay exact. Returns 0 or a negative errno. */
int switches_set_process(void *switches, uint32_t pid, bool on);

extern const struct source switches_source;
