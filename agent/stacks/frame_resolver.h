// SPDX-License-Identifier: Apache-2.0
// Turns a frame as the BPF programs unwound it (an address, or a Python code object) into a location,
// which outlives the process. Here native code, JIT code, Python and GPU kernels meet. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/location_table.h"
#include "agent/process/process_table.h"
#include "agent/python/python_code_cache.h"
#include "bpf/unwind/stack.h"

/** Names of GPU kernels. */
struct gpu_namer {
	/** The name by its hash (bpf/gpu/gpu_call.h), NULL: unknown. Valid until the next call. */
	const char *(*name)(void *context, uint64_t hash);
	void *context;
};

/** What it resolves frames with; outlives it. */
struct frame_resolver {
	struct process_table *processes;
	struct location_table *locations;
	struct python_code_cache *python_codes; // NULL: Python frames stay unnamed
	const struct gpu_namer *gpu_namer;      // NULL, or without name(): GPU kernels stay unnamed
};

/**
 * The location of a caller in a stack trace of @process (NULL: a kernel stack). Call it while the process
 * lives: its mappings and code objects are read now.
 * Returns 0; -ENOENT: the stack ends before this frame, for the reason in *ret_end; -ENOMEM, also at
 * LOCATIONS_MAX.
 */
int frame_resolve_caller(const struct frame_resolver *locator, struct process *process,
			 const struct raw_frame *frame, uint32_t *ret_location,
			 enum stack_end *ret_end);

/**
 * The location of a leaf, reduced to its function or line, so that a hot loop is one stack.
 * HASH_TABLE_NONE when out of memory.
 */
uint32_t frame_resolve_leaf(const struct frame_resolver *locator, struct process *process,
			    const struct raw_frame *leaf);

/** Read now, while @process lives, what frame_resolve_leaf() needs of it. */
void frame_resolver_prefetch_leaf(const struct frame_resolver *locator, struct process *process,
				  const struct raw_frame *leaf);
