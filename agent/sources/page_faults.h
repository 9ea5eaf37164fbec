// SPDX-License-Identifier: Apache-2.0
// The BPF programs of page faults (bpf/memory/page_faults.bpf.c): memory growth by stack, counted into the
// sampler's maps. Uses libbpf, as loader.c does. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/loader.h"
#include "agent/sources/source.h"
#include "base/error.h"
#include "base/event_log.h"

enum {
	// On each CPU, at most: 0.5 % of it at some 10 us each. With fewer, the growth of one process on a node that is
	// busy with others' faults was off by 15 %.
	PAGE_FAULT_STACKS_PER_SECOND = 500,
};

struct page_faults;

struct page_faults_options {
	uint64_t slot_ns;
	bool only_targets;        // as the sampler: only processes that are sampled
	struct event_log *events; // may be NULL
	bool begins_later;        // by page_faults_set_running()
	bool no_tracepoints;      // for tests: begin with what is tried where there are none
};

/**
 * Load the programs beside the sampler of @loader, which outlives them, and attach them unless @options->begins_later.
 * Returns 0 or a negative errno.
 */
int page_faults_open(const struct loader *loader, const struct page_faults_options *options,
		     struct page_faults **ret_faults, struct error *err);
/** NULL is allowed. */
void page_faults_close(void *faults);

/** Stop, or go on. Returns 0 or a negative errno; then they do not run. */
int page_faults_set_running(void *faults, bool on);

/** Unwind at most so many stacks per second and CPU; below 10 is 10. */
void page_faults_set_budget(struct page_faults *faults, uint32_t stacks_per_second);

/** Time in the programs and how often they ran; 0 unless kernel.bpf_stats_enabled. */
void page_faults_read_run_time(const struct page_faults *faults, uint64_t *ret_ns,
			       uint64_t *ret_count);

extern const struct source page_faults_source;
