// SPDX-License-Identifier: Apache-2.0
// What CUDA graphs launch: the stacks that launched kernels while a graph was captured, which count each time that the
// graph is launched, or one that it is a part of. The kernel programs (bpf/gpu/gpu_graphs.bpf.h) keep what they saw by the
// graph's number until it is taken from them here. Uses libbpf. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/bpf/map_entries.h"
#include "agent/stacks/export_interval.h"
#include "bpf/gpu/gpu_call.h"

enum {
	GPU_GRAPH_KERNELS_MAX = 131072, // stacks of all graphs: 9 MB
};

struct gpu_graph_stack {
	struct gpu_owner owner;
	uint64_t launches; // in the capture
};

struct gpu_graph_times {
	uint64_t number; // of a graph, below that of the one that it is in
	uint64_t times;
};

struct gpu_captured_graph {
	uint64_t number;
	uint64_t launches, told; // of the graph
	uint64_t within;         // of graphs that it is in, since they were told
	struct gpu_graph_stack *stacks;
	uint32_t count, capacity;
	struct gpu_graph_times *parts;
	uint32_t part_count;
	bool is_partial; // some of its kernels are not known: none are told
	bool is_of_use,
		was_of_use; // some graph's handle stands for it: now, when it was looked the last time
};

/** Zeroed it is empty. */
struct gpu_graphs {
	struct gpu_captured_graph *graphs; // by number
	uint32_t count, capacity;
	uint32_t stack_count; // of all
	bool is_full;         // there was no room for some
};

/** The maps of the kernel programs. */
struct gpu_graph_maps {
	const struct bpf_map *graphs, *launches, *kernels, *parts;
};

void gpu_graphs_deinit(struct gpu_graphs *graphs);

/**
 * Take what was captured, and add what graphs launched since the last time to @window, over its whole length.
 * Returns 0 or a negative errno.
 */
int gpu_graphs_tell(struct gpu_graphs *graphs, struct map_entries *entries,
		    const struct gpu_graph_maps *maps, struct export_interval *interval,
		    uint64_t now_ns);

/** Let go of captures of which no graph is there any more, nor was when this was called before. 0 or -errno. */
int gpu_graphs_sweep(struct gpu_graphs *graphs, struct map_entries *entries,
		     const struct gpu_graph_maps *maps);
