/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Graphs: who captured them, and what they launch. While a stream is captured its launches are none: they are kept with their
// stacks, by the capture's number, and count each time that the graph is launched. The agent does the sum
// (agent/gpu_graphs.h).
#pragma once

#include "gpu_calls.bpf.h"

/* An inference server captures hundreds, for each batch size; in pieces, some ten thousand. 20 MB if all are there. */
#define GPU_GRAPHS_MAX 131072
#define GPU_KERNELS_MAX \
	65536 // stacks that have launched a kernel, of captures since the agent looked last

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_GRAPHS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_graph);
} gpu_graphs SEC(".maps");

/* Launches of finished captures' graphs, by their numbers; GPU_GRAPH_NOT_KNOWN. */
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

/* ---- captures ---------------------------------------------------------------------------------- */

static __always_inline void put_capture(const struct process_key *process, __u64 stream,
					const struct gpu_capture *capture)
{
	struct gpu_key key = { *process, stream, GPU_HANDLE_CAPTURE };

	if (bpf_map_update_elem(&gpu_captures, &key, capture, BPF_ANY))
		count(COUNTER_GPU_FULL);
}

static __always_inline void begin_capture(const struct process_key *process, __u64 stream,
					  __u64 now)
{
	struct gpu_capture capture = {
		.number = __sync_fetch_and_add(&gpu_captures_begun, 1) + 1,
		.origin = stream,
		.seen = *(const volatile __u64 *)&gpu_captures_seen,
	};

	gpu_captured_ns = now;
	put_capture(process, stream, &capture);
}

/* Its number; 0: nobody has seen it begin. */
static __always_inline __u64 end_capture_of(const struct process_key *process, __u64 stream)
{
	struct gpu_key key = { *process, stream, GPU_HANDLE_CAPTURE };
	const struct gpu_capture *capture = bpf_map_lookup_elem(&gpu_captures, &key);
	__u64 number, launches = 0;

	if (!capture || capture->origin != stream)
		return 0;
	number = capture->number;
	if (!capture->seen || capture->seen != *(const volatile __u64 *)&gpu_captures_seen) {
		launches = GPU_GRAPH_NOT_KNOWN;
		count(COUNTER_GPU_CAPTURES_MISSED);
	}
	bpf_map_delete_elem(&gpu_captures, &key);
	if (bpf_map_update_elem(&gpu_graph_launches, &number, &launches, BPF_ANY))
		count(COUNTER_GPU_FULL);
	return launches ? 0 : number;
}

/* A stream waits for an event that was recorded in a capture: it is part of it from now on. */
static __always_inline void join_capture(const struct process_key *process, __u64 stream,
					 __u64 event)
{
	struct gpu_key key = { *process, event, GPU_HANDLE_EVENT };
	const struct gpu_event *recorded = bpf_map_lookup_elem(&gpu_events, &key);
	const struct gpu_capture *of;
	struct gpu_capture capture;

	if (!recorded || !recorded->capture || recorded->stream == stream)
		return;
	key.handle = recorded->stream;
	key.kind = GPU_HANDLE_CAPTURE;
	of = bpf_map_lookup_elem(&gpu_captures, &key);
	if (!of || of->number != recorded->capture || of->origin == stream)
		return;
	capture = *of;
	put_capture(process, stream, &capture);
}

/* ---- launches ---------------------------------------------------------------------------------- */

/* The work's key, stack and graph's number are there. */
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
	if (known)
		__sync_fetch_and_add(known, launches);
	else
		count(COUNTER_GPU_FULL);
}

/* ---- graphs ------------------------------------------------------------------------------------ */

static __always_inline void keep_graph(const struct process_key *process, __u64 kind, __u64 handle,
				       const struct gpu_graph *graph)
{
	struct gpu_key key = { *process, handle, kind };

	if (handle && bpf_map_update_elem(&gpu_graphs, &key, graph, BPF_ANY))
		count(COUNTER_GPU_FULL);
}

static __always_inline const struct gpu_graph *find_graph(const struct process_key *process,
							  __u64 kind, __u64 handle)
{
	struct gpu_key key = { *process, handle, kind };

	return bpf_map_lookup_elem(&gpu_graphs, &key);
}

static __always_inline void forget_graph(const struct process_key *process, __u64 kind,
					 __u64 handle)
{
	struct gpu_key key = { *process, handle, kind };

	bpf_map_delete_elem(&gpu_graphs, &key);
}

static __always_inline void count_graph_launch(const struct gpu_graph *graph, __u64 launches)
{
	__u64 number = graph->number, *known;

	known = number ? bpf_map_lookup_elem(&gpu_graph_launches, &number) : NULL;
	if (known)
		__sync_fetch_and_add(known, launches);
}
