/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// CUDA graphs: which stack captured them, and which GPU kernels they launch. Launches on a captured stream run nothing: their
// stacks are recorded by the graph's number. Each launch of the graph, or of a graph that contains it, counts them. The agent
// adds that up (agent/gpu/gpu_graphs.h).
#pragma once

#include "bpf/gpu/gpu_calls.bpf.h"

/* An inference server captures hundreds, one per batch size; piecewise, some ten thousand. 20 MB when full. */
#define GPU_GRAPHS_MAX  131072
#define GPU_KERNELS_MAX 65536 // stacks of captured launches, until the agent drains them
#define GPU_PARTS_MAX   16384 // parts of graphs, until the agent drains them

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_GRAPHS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_graph);
} gpu_graphs SEC(".maps");

/* Launches of captured graphs by number; GPU_GRAPH_LAUNCHES_UNKNOWN if a GPU kernel was missed, also while capturing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_GRAPHS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u64);
} gpu_graph_launches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_KERNELS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_graph_kernel);
	__type(value, __u64); // launches
} gpu_graph_kernels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_PARTS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_graph_part_key);
	__type(value, __u64); // how often
} gpu_graph_parts SEC(".maps");

/* ---- numbers ----------------------------------------------------------------------------------- */

static __always_inline __u64 next_graph_number(void)
{
	return __sync_fetch_and_add(&gpu_graph_numbers, 1) + 1;
}

/* The number of an empty graph; 0: the map is full. */
static __always_inline __u64 number_graph(void)
{
	__u64 number = next_graph_number(), launches = 0;

	if (!bpf_map_update_elem(&gpu_graph_launches, &number, &launches, BPF_ANY))
		return number;
	count(COUNTER_GPU_MAPS_FULL);
	return 0;
}

static __always_inline bool add_part(__u64 number, __u64 part)
{
	struct gpu_graph_part_key key = { number, part };
	__u64 once = 1, *times = bpf_map_lookup_elem(&gpu_graph_parts, &key);

	if (times) {
		__sync_fetch_and_add(times, 1);
		return true;
	}
	if (!bpf_map_update_elem(&gpu_graph_parts, &key, &once, BPF_ANY))
		return true;
	count(COUNTER_GPU_MAPS_FULL);
	return false;
}

/* The number of a graph with the GPU kernels of both; 0: unknown. */
static __always_inline __u64 number_both(__u64 one, __u64 other)
{
	__u64 number = one && other ? number_graph() : 0;

	return number && add_part(number, one) && add_part(number, other) ? number : 0;
}

/* The number of a graph that contains @one, and will get more nodes; 0: unknown. */
static __always_inline __u64 number_anew(__u64 one)
{
	__u64 number = one ? number_graph() : 0;

	return number && add_part(number, one) ? number : 0;
}

/* ---- captures ---------------------------------------------------------------------------------- */

static __always_inline void put_capture(const struct process_key *process, __u64 stream,
					const struct gpu_capture *capture)
{
	struct gpu_key key = { *process, stream, GPU_HANDLE_CAPTURE };

	if (bpf_map_update_elem(&gpu_captures, &key, capture, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}

static __always_inline void begin_capture(const struct process_key *process, __u64 stream,
					  bool is_added, __u64 now)
{
	struct gpu_capture capture = {
		.number = next_graph_number(),
		.origin = stream,
		.seen = *(const volatile __u64 *)&gpu_captures_seen,
		.began_ns = now,
		.is_added = is_added,
	};

	__sync_fetch_and_add(&gpu_captures_begun, 1);
	gpu_captured_ns = now;
	put_capture(process, stream, &capture);
}

/* Its number; 0: its begin was not seen, or it is incomplete. @ret_is_added: it went into an existing graph. */
static __always_inline __u64 end_capture_of(const struct process_key *process, __u64 stream,
					    __u64 *ret_is_added)
{
	struct gpu_key key = { *process, stream, GPU_HANDLE_CAPTURE };
	const struct gpu_capture *capture = bpf_map_lookup_elem(&gpu_captures, &key);
	__u64 number, launches = 0, *known;

	*ret_is_added = 0;
	if (!capture || capture->origin != stream)
		return 0;
	number = capture->number;
	known = bpf_map_lookup_elem(&gpu_graph_launches,
				    &number); // there only if a launch was dropped
	*ret_is_added = capture->is_added;
	if (known || !capture->seen ||
	    capture->seen != *(const volatile __u64 *)&gpu_captures_seen ||
	    is_capture_lost(capture)) {
		launches = GPU_GRAPH_LAUNCHES_UNKNOWN;
		count(COUNTER_GPU_CAPTURES_MISSED);
	}
	bpf_map_delete_elem(&gpu_captures, &key);
	if (bpf_map_update_elem(&gpu_graph_launches, &number, &launches, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
	return launches ? 0 : number;
}

/*
 * A stream waits for an event that was recorded in a capture: it joins the capture. Not inlined: Linux 6.1 limits the
 * stack of a chain of calls to 512 bytes, and the caller unwinds.
 */
static __attribute__((noinline)) int join_capture(const struct process_key *process, __u64 stream,
						  __u64 event)
{
	struct gpu_key key = { *process, event, GPU_HANDLE_EVENT };
	const struct gpu_event *recorded = bpf_map_lookup_elem(&gpu_events, &key);
	const struct gpu_capture *of;
	struct gpu_capture capture;

	if (!recorded || !recorded->capture || recorded->stream == stream)
		return 0;
	key.handle = recorded->stream;
	key.kind = GPU_HANDLE_CAPTURE;
	of = bpf_map_lookup_elem(&gpu_captures, &key);
	if (!of || of->number != recorded->capture || of->origin == stream)
		return 0;
	capture = *of;
	put_capture(process, stream, &capture);
	return 0;
}

/* ---- launches ---------------------------------------------------------------------------------- */

/* The work has its key, stack and graph number. If the map is full, the graph is marked as incomplete. */
static __always_inline void keep_captured(struct gpu_work *work, __u64 launches)
{
	struct gpu_graph_kernel *kernel = &work->captured;
	__u64 *known;

	own_stack(work, &kernel->owner);
	known = bpf_map_lookup_elem(&gpu_graph_kernels, kernel);
	if (!known) {
		work->value = 0;
		bpf_map_update_elem(&gpu_graph_kernels, kernel, &work->value, BPF_NOEXIST);
		known = bpf_map_lookup_elem(&gpu_graph_kernels, kernel);
	}
	if (known) {
		__sync_fetch_and_add(known, launches);
		return;
	}
	count(COUNTER_GPU_MAPS_FULL);
	work->value = GPU_GRAPH_LAUNCHES_UNKNOWN;
	bpf_map_update_elem(&gpu_graph_launches, &kernel->graph, &work->value, BPF_ANY);
}

/* ---- graphs ------------------------------------------------------------------------------------ */

static __always_inline void keep_graph(const struct process_key *process, __u64 kind, __u64 handle,
				       const struct gpu_graph *graph)
{
	struct gpu_key key = { *process, handle, kind };

	if (handle && bpf_map_update_elem(&gpu_graphs, &key, graph, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}

static __always_inline struct gpu_graph *find_graph(const struct process_key *process, __u64 kind,
						    __u64 handle)
{
	struct gpu_key key = { *process, handle, kind };

	return bpf_map_lookup_elem(&gpu_graphs, &key);
}

static __always_inline void remove_graph(const struct process_key *process, __u64 kind,
					 __u64 handle)
{
	struct gpu_key key = { *process, handle, kind };

	bpf_map_delete_elem(&gpu_graphs, &key);
}

/* The graph, whose number is immutable from now on; NULL: unknown. */
static __always_inline struct gpu_graph *seal_graph(const struct process_key *process, __u64 handle)
{
	struct gpu_graph *graph = find_graph(process, GPU_HANDLE_GRAPH, handle);

	if (graph)
		graph->flags |= GPU_GRAPH_SEALED;
	return graph;
}

static __always_inline __u64 number_of(const struct gpu_graph *graph)
{
	return graph && !(graph->flags & GPU_GRAPH_INCOMPLETE) ? graph->number : 0;
}

/*
 * The number of a captured graph, from the capture's number and what is known of its handle: nodes may have been added to it
 * by other calls, before the capture or during it.
 */
static __always_inline __u64 number_captured(__u64 number, bool is_added,
					     const struct gpu_graph *before)
{
	if (!number || (is_added && !number_of(before)))
		return 0;
	if (is_added)
		return number_both(number, before->number);
	// Otherwise @before was another graph with the same handle.
	if (!before || !(before->flags & GPU_GRAPH_INCOMPLETE) ||
	    (before->number && before->number < number))
		return number;
	return number_both(number, before->number);
}

/* Copy the graph of the work's process into work->graph. False: unknown, work->graph is an incomplete one. */
static __always_inline bool read_graph(struct gpu_work *work, __u64 handle)
{
	const struct gpu_graph *known = find_graph(&work->key.process, GPU_HANDLE_GRAPH, handle);

	if (known) {
		work->graph = *known;
		return true;
	}
	__builtin_memset(&work->graph, 0, sizeof(work->graph));
	work->graph.flags = GPU_GRAPH_INCOMPLETE;
	return false;
}

/* A graph got a child graph as a node. @child: its number; 0: its GPU kernels are unknown. */
static __always_inline void add_child(struct gpu_work *work, __u64 handle, __u64 child)
{
	bool is_known = read_graph(work, handle);

	work->graph.number = is_known ? number_both(work->graph.number, child) : number_anew(child);
	work->graph.flags |= GPU_GRAPH_SEALED; // the next node gets a new number
	keep_graph(&work->key.process, GPU_HANDLE_GRAPH, handle, &work->graph);
}

/* The number under which a graph's next GPU kernel node is recorded; 0: the graph is incomplete. */
static __always_inline __u64 number_to_add_to(struct gpu_work *work, __u64 handle)
{
	bool is_known = read_graph(work, handle);

	if (is_known && (!work->graph.number || !(work->graph.flags & GPU_GRAPH_SEALED)))
		return work->graph.number;
	work->graph.number = is_known ? number_anew(work->graph.number) : number_graph();
	work->graph.flags &= ~(__u64)GPU_GRAPH_SEALED;
	keep_graph(&work->key.process, GPU_HANDLE_GRAPH, handle, &work->graph);
	return work->graph.number;
}

static __always_inline void count_graph_launch(const struct gpu_graph *graph, __u64 launches)
{
	__u64 number = graph->number, *known;

	known = number ? bpf_map_lookup_elem(&gpu_graph_launches, &number) : NULL;
	if (known && *known != GPU_GRAPH_LAUNCHES_UNKNOWN)
		__sync_fetch_and_add(known, launches);
}
