// SPDX-License-Identifier: Apache-2.0
// CUDA graph kernels: the stacks that launched GPU kernels while a graph was captured. Each launch of the graph, or of a
// graph that contains it, counts them again. The BPF programs (bpf/gpu/gpu_graphs.bpf.h) record captures by the graph's
// number; this module drains them. Uses libbpf. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/map_entries.h"
#include "agent/stacks/export_interval.h"
#include "bpf/gpu/gpu_call.h"

enum {
	GPU_GRAPH_KERNELS_MAX = 131072, // stacks in all graphs: 9 MB
};

struct gpu_graph_stack {
	struct gpu_owner owner;
	uint64_t launches; // of GPU kernels, in one capture
};

/** A graph that another one contains so many times. */
struct gpu_graph_part {
	uint64_t number; // lower than the container's
	uint64_t times;
};

struct gpu_captured_graph {
	uint64_t number;
	uint64_t launches, exported; // of the graph itself
	uint64_t within;             // launches of its containers, not exported yet
	struct gpu_graph_stack *stacks;
	uint32_t count, capacity;
	struct gpu_graph_part *parts;
	uint32_t part_count;
	bool is_incomplete; // some GPU kernels are unknown, so none is exported
	bool is_referenced,
		was_referenced; // some handle stands for it: at this sweep, at the last one
};

/** Zeroed it is empty. */
struct gpu_graphs {
	struct gpu_captured_graph *graphs; // by number
	uint32_t count, capacity;
	uint32_t stack_count; // in all graphs
	bool is_full;         // GPU_GRAPH_KERNELS_MAX was reached
};

/** Maps of the BPF programs. */
struct gpu_graph_maps {
	const struct bpf_map *graphs, *launches, *gpu_kernels, *parts;
};

void gpu_graphs_deinit(struct gpu_graphs *graphs);

/**
 * Drain finished captures, and add the GPU kernels that graphs launched since the last call, spread over @interval.
 * Returns 0 or a negative errno.
 */
int gpu_graphs_export(struct gpu_graphs *graphs, struct map_entries *entries,
		      const struct gpu_graph_maps *maps, struct export_interval *interval,
		      uint64_t now_ns);

/** Free graphs without a handle at this sweep and at the last one. Returns 0 or a negative errno. */
int gpu_graphs_sweep(struct gpu_graphs *graphs, struct map_entries *entries,
		     const struct gpu_graph_maps *maps);
