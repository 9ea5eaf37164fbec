// SPDX-License-Identifier: Apache-2.0
// The BPF programs of GPU calls (bpf/gpu/gpu.bpf.c), which count into the sampler's maps, and the maps of their own:
// memory in use by stack, captured CUDA graphs, GPU kernel names, idle time. gpu_probes.h attaches them. Uses libbpf.
// One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/loader.h"
#include "agent/gpu/gpu_calls.h"
#include "agent/process/process_table.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

enum {
	// Per CPU, at most: some 0.1 % of it at 2 to 5 us each.
	GPU_STACKS_PER_SECOND = 300,
};

struct gpu_programs;

struct gpu_programs_options {
	uint64_t slot_ns;
	bool only_targets;    // only the processes that the sampler samples
	uint32_t attach_type; // probe_way_attach_type()
	bool keep_calls;      // for tests: gpu_programs_last_call()
};

/** Load the programs. They share maps with those of @loader, which outlives them. Returns 0 or a negative errno. */
int gpu_programs_open(const struct loader *loader, const struct gpu_programs_options *options,
		      struct gpu_programs **ret_programs, struct error *err);
/** NULL is allowed. */
void gpu_programs_close(struct gpu_programs *programs);

/** The program for the entry of this function. Owned here. */
int gpu_programs_entry_fd(const struct gpu_programs *programs,
			  const struct gpu_call_symbol *symbol);

/** The programs for entry and return of all kinds of calls. Owned here. */
void gpu_programs_by_kind(const struct gpu_programs *programs,
			  struct gpu_call_programs *ret_programs);

// Callbacks of struct gpu_probes_options, which says what they do.
void gpu_programs_set_on_phase(void *programs, const struct gpu_on_phase *phase);
void gpu_programs_set_generation(void *programs, uint32_t generation);
uint64_t gpu_programs_read_captures(void *programs);
void gpu_programs_set_sees_captures(void *programs, bool sees);
int gpu_programs_read_hits(void *programs, uint64_t ret_hits[GPU_CALL_COUNT]);

/** A driver file is probed now: processes that start later are seen from their beginning. */
void gpu_programs_set_attached(struct gpu_programs *programs);
/**
 * Are all calls that allocate, free or map memory seen from now on? While they are not, memory in use is not
 * exported. Either way the sums restart at zero.
 */
void gpu_programs_set_memory_known(struct gpu_programs *programs, bool is_known);
/** How often the sums of a process restarted at zero because one of its calls was missed. */
uint64_t gpu_programs_missed(const struct gpu_programs *programs);
/** Was some CUDA graph dropped because GPU_GRAPH_KERNELS_MAX was reached? */
bool gpu_programs_graphs_full(const struct gpu_programs *programs);

/** A launch that the CUPTI helper sampled, with its correlation id. */
struct gpu_correlated_launch {
	uint32_t correlation;
	struct gpu_sampled_launch launch;
};

/**
 * Drain the launches of @process, sorted by correlation; *ret_launches is the caller's to free. Returns 0 or a
 * negative errno.
 */
int gpu_programs_take_sampled_launches(struct gpu_programs *programs,
				       const struct process_key *process,
				       struct gpu_correlated_launch **ret_launches,
				       uint32_t *ret_count);
/** A frame for the GPU kernel of that name. */
struct raw_frame gpu_programs_frame(struct gpu_programs *programs, const char *name);

/** Memory in use now, of all processes. Returns 0 or a negative errno. */
int gpu_programs_read_memory(struct gpu_programs *programs, struct gpu_live *ret_live);
/** Stacks per second and CPU to capture from now on, of launches and of other calls each. */
void gpu_programs_set_budget(struct gpu_programs *programs, uint32_t stacks_per_second);

/**
 * All counts are in @interval, which ends now: add memory in use for each second since the last call, CUDA graph
 * kernels and idle time, and free what belongs to ended processes. Returns 0 or a negative errno.
 */
int gpu_programs_after_drain(struct gpu_programs *programs, struct process_table *processes,
			     struct export_interval *interval);

/** The last call that a probe saw. Returns 0 or a negative errno. */
int gpu_programs_last_call(const struct gpu_programs *programs, struct gpu_call_record *ret_call);

/** For a struct gpu_namer: the mangled name of a GPU kernel by its hash, or NULL. Valid until the next call. */
const char *gpu_programs_name(void *programs, uint64_t hash);
