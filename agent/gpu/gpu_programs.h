// SPDX-License-Identifier: Apache-2.0
// The kernel programs of a GPU's driver calls (bpf/gpu/gpu.bpf.c), which count into the sampler's maps, and
// what they keep: live memory by stack, captured graphs, names of kernels. Who attaches them is
// agent/gpu/gpu_probes.h. Uses libbpf, as loader.c does. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/gpu/gpu_calls.h"
#include "agent/gpu/gpu_probes.h"
#include "agent/bpf/loader.h"
#include "agent/process/process_table.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

enum {
	// Each CPU, at most: some 0.1 % of it at 2 to 5 us each.
	GPU_STACKS_PER_SECOND = 300,
};

struct gpu_programs;

struct gpu_programs_options {
	uint64_t slot_ns;
	bool only_targets;    // as the sampler: only processes that are followed
	uint32_t attach_type; // probe_way_attach_type(): how they will be attached
	bool keep_calls;      // for tests: gpu_programs_last_call()
};

/**
 * Load the programs beside the sampler of @loader, which outlives them. Returns 0 or a negative
 * errno.
 */
int gpu_programs_open(const struct loader *loader, const struct gpu_programs_options *options,
		      struct gpu_programs **ret_programs, struct error *err);
/** NULL is allowed. */
void gpu_programs_close(struct gpu_programs *programs);

/** The program for the entry of such calls. Owned here. */
int gpu_programs_entry_fd(const struct gpu_programs *programs,
			  const struct gpu_call_symbol *symbol);

/** Those for the entry and the return of all kinds of calls, for a struct gpu_probes_options. Likewise. */
void gpu_programs_by_kind(const struct gpu_programs *programs,
			  struct gpu_probe_programs *ret_programs);

/** For a struct gpu_probes_options: from now on probes that are not always there count in this window. */
void gpu_programs_set_window(void *programs, const struct gpu_window *interval);
/** Likewise: of probes that are always there, those of this generation count from now on. */
void gpu_programs_set_generation(void *programs, uint32_t generation);
/** Probes were attached to a driver's file: who starts from now on is watched from its beginning. */
void gpu_programs_set_attached(struct gpu_programs *programs);
/** For a struct gpu_probes_options: how many captures of graphs have begun. */
uint64_t gpu_programs_read_captures(void *programs);
/** Likewise: whether launches that are captured are seen from now on. */
void gpu_programs_set_sees_captures(void *programs, bool sees);
/**
 * Whether each call is seen that allocates, frees or maps memory. Either way all that was known of memory is
 * forgotten; while they are not, what is allocated is not told.
 */
void gpu_programs_set_memory_known(struct gpu_programs *programs, bool is_known);
/** How often a process's memory was forgotten because one of its calls was missed. */
uint64_t gpu_programs_missed(const struct gpu_programs *programs);
/** Whether there was no room for some kernel of a graph (GPU_GRAPH_KERNELS_MAX stacks). */
bool gpu_programs_graphs_full(const struct gpu_programs *programs);

/** A launch that the CUPTI helper told of. */
struct gpu_told {
	uint32_t number;
	struct gpu_told_launch launch;
};

/**
 * Those of @process, by number, and forget them: *ret_told is the caller's to free. Returns 0 or a negative
 * errno.
 */
int gpu_programs_take_told(struct gpu_programs *programs, const struct process_key *process,
			   struct gpu_told **ret_told, uint32_t *ret_count);
/** A frame that stands for a function of the device of that name. */
struct raw_frame gpu_programs_frame(struct gpu_programs *programs, const char *name);

/** What is allocated now, of all processes and stacks. Returns 0 or a negative errno. */
int gpu_programs_read_memory(struct gpu_programs *programs, struct gpu_live *ret_live);
/** For a struct gpu_probes_options: how often programs have run, by enum gpu_call, entries and returns. 0 or -errno. */
int gpu_programs_read_hits(void *programs, uint64_t ret_hits[GPU_CALL_COUNT]);
/** How many stacks a second each CPU may take from now on, of launches and of other calls. */
void gpu_programs_set_budget(struct gpu_programs *programs, uint32_t stacks_per_second);

/**
 * All counts are in @window, which ends now: add what memory is allocated, by stack, for each second
 * since the last time; keep the stacks that graphs were captured by; let go of what ended processes
 * have left. Returns 0 or a negative errno.
 */
int gpu_programs_after_drain(struct gpu_programs *programs, struct process_table *processes,
			     struct export_interval *interval);

/** The last call that a probe has seen. Returns 0 or a negative errno. */
int gpu_programs_last_call(const struct gpu_programs *programs, struct gpu_call_record *ret_call);

/**
 * The name of a device's function by its hash, demangled by nobody, for a struct gpu_namer. Returns
 * NULL if it is not known; valid until the next call.
 */
const char *gpu_programs_name(void *programs, uint64_t hash);
