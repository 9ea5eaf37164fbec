/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// CUDA events (which work a wait is for), and stream captures (which streams are being captured into a CUDA graph).
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_arguments.bpf.h"
#include "bpf/maps.bpf.h"

#define GPU_EVENTS_MAX     8192            // recorded last, in all processes
#define GPU_CAPTURES_MAX   1024            // streams being captured now
#define GPU_CAPTURE_NS_MAX 600000000000ULL // a longer capture has ended unseen

struct gpu_event {
	__u64 stream;
	__u64 recorded_ns; // when cuEventRecord was called
	__u64 capture;     // number of the capture that the stream was in; 0: none
};

/* An evicted event is unknown: a wait for it covers nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GPU_EVENTS_MAX);
	__type(key, struct gpu_key);
	__type(value, struct gpu_event);
} gpu_events SEC(".maps");

struct gpu_capture {
	__u64 number;   // of the graph that it makes
	__u64 origin;   // the stream on which it began
	__u64 seen;     // gpu_captures_seen when it began
	__u64 began_ns; // it expires after GPU_CAPTURE_NS_MAX: its end may be missed
	__u64 is_added; // to an existing graph
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_CAPTURES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_capture);
} gpu_captures SEC(".maps");

__u64 gpu_captures_begun = 0; // so far; read by the agent
__u64 gpu_graph_numbers = 0;  // given to graphs so far
__u64 gpu_captured_ns = 0;    // when the last capture began
__u64 gpu_captures_lost =
	0; // captures up to this number count no longer: the end of one was missed
/* Set at any time: how often the probes of captured launches were attached; 0: they are not attached. */
__u64 gpu_captures_seen = 0;

static __always_inline bool is_capture_lost(const struct gpu_capture *capture)
{
	return capture->number <= *(const volatile __u64 *)&gpu_captures_lost;
}

/*
 * The number of the capture that a stream of the current process is in; 0: none. A stream that joined a capture by an
 * event stays in it until the capture ends on its origin.
 */
__attribute__((noinline)) int gpu_capture_of(__u64 stream, __u64 now)
{
	struct gpu_key key = { gpu_current_process(), stream, GPU_HANDLE_CAPTURE };
	const struct gpu_capture *capture, *origin;

	if (ns_between(*(const volatile __u64 *)&gpu_captured_ns, now) > GPU_CAPTURE_NS_MAX)
		return 0;
	capture = bpf_map_lookup_elem(&gpu_captures, &key);
	if (!capture || ns_between(capture->began_ns, now) > GPU_CAPTURE_NS_MAX ||
	    is_capture_lost(capture))
		return 0;
	if (capture->origin == stream)
		return capture->number;
	key.handle = capture->origin;
	origin = bpf_map_lookup_elem(&gpu_captures, &key);
	return origin && origin->number == capture->number ? origin->number : 0;
}

/* The end of some capture was missed: launches on any captured stream may be real ones from now on. */
static __always_inline void gpu_capture_missed(__u32 call)
{
	if (call == GPU_CALL_CAPTURE_END)
		gpu_captures_lost = gpu_graph_numbers;
}

/* A new stream with the same handle is not captured. */
static __always_inline void remove_stream(const struct process_key *process, __u64 stream)
{
	struct gpu_key key = { *process, stream, GPU_HANDLE_CAPTURE };

	bpf_map_delete_elem(&gpu_captures, &key);
}

/* Finds the process itself: see capture_gpu_stack(). */
__attribute__((noinline)) int gpu_event_recorded(__u64 event, __u64 stream, __u64 now)
{
	struct gpu_key key = { gpu_current_process(), event, GPU_HANDLE_EVENT };
	struct gpu_event recorded = { .stream = stream, .recorded_ns = now };

	recorded.capture = gpu_capture_of(stream, now);
	bpf_map_update_elem(&gpu_events, &key, &recorded, BPF_ANY);
	return 0;
}

/* Else a new event with the same handle would have this one's stream. */
static __always_inline void remove_event(const struct process_key *process, __u64 event)
{
	struct gpu_key key = { *process, event, GPU_HANDLE_EVENT };

	bpf_map_delete_elem(&gpu_events, &key);
}
