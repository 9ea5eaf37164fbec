/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Events of streams, which say what a wait is for, and the streams that are captured into graphs.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_arguments.bpf.h"
#include "bpf/maps.bpf.h"

#define GPU_EVENTS_MAX     8192            // recorded lately, of all processes
#define GPU_CAPTURES_MAX   1024            // streams that are captured just now
#define GPU_CAPTURE_NS_MAX 600000000000ULL // later nothing is looked up: its end was missed

struct gpu_event {
	__u64 stream;
	__u64 recorded_ns; // when that was asked for
	__u64 capture;     // number, if the stream was captured then
};

/* One that was let go is an event of which nothing is known. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GPU_EVENTS_MAX);
	__type(key, struct gpu_key);
	__type(value, struct gpu_event);
} gpu_events SEC(".maps");

struct gpu_capture {
	__u64 number;   // of the graph that it makes
	__u64 origin;   // the stream that it began on
	__u64 seen;     // gpu_captures_seen at its beginning
	__u64 began_ns; // where its end was missed, it is none some time later
	__u64 is_added; // to a graph that was there before
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_CAPTURES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_capture);
} gpu_captures SEC(".maps");

__u64 gpu_captures_begun = 0; // so far; read by the agent
__u64 gpu_graph_numbers = 0;  // that were given to graphs so far
__u64 gpu_captured_ns = 0;    // when the last one began
__u64 gpu_captures_lost = 0; // the end of one was missed: those up to this number are none any more
/* Set at any time: the number of times that probes of captured launches were attached; 0: they are not there. */
__u64 gpu_captures_seen = 0;

static __always_inline bool is_capture_lost(const struct gpu_capture *capture)
{
	return capture->number <= *(const volatile __u64 *)&gpu_captures_lost;
}

/*
 * The number of the capture that a stream of the current process is in; 0: none. A stream that has joined one by an
 * event is in it as long as the one that it began on.
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

/* The end of a capture was not seen, nobody knows of which: what is launched may be launched, all of it. */
static __always_inline void gpu_capture_missed(__u32 call)
{
	if (call == GPU_CALL_CAPTURE_END)
		gpu_captures_lost = gpu_graph_numbers;
}

/* A stream has gone, and whoever has its handle next captures nothing yet. */
static __always_inline void forget_stream(const struct process_key *process, __u64 stream)
{
	struct gpu_key key = { *process, stream, GPU_HANDLE_CAPTURE };

	bpf_map_delete_elem(&gpu_captures, &key);
}

/* By number: see take_gpu_stack(). */
__attribute__((noinline)) int gpu_event_recorded(__u64 event, __u64 stream, __u64 now)
{
	struct gpu_key key = { gpu_current_process(), event, GPU_HANDLE_EVENT };
	struct gpu_event recorded = { .stream = stream, .recorded_ns = now };

	recorded.capture = gpu_capture_of(stream, now);
	bpf_map_update_elem(&gpu_events, &key, &recorded, BPF_ANY);
	return 0;
}

/* A wait for one that has its handle later is no wait for what this one was recorded on. */
static __always_inline void forget_event(const struct process_key *process, __u64 event)
{
	struct gpu_key key = { *process, event, GPU_HANDLE_EVENT };

	bpf_map_delete_elem(&gpu_events, &key);
}
