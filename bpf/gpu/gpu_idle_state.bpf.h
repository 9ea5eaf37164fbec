/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Driver calls begin and end GPU idle intervals; gpu_idle.bpf.h has the definition.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_arguments.bpf.h"
#include "bpf/gpu/gpu_events.bpf.h"
#include "bpf/gpu/gpu_idle.bpf.h"

/* Set at any time: the on phase of duty-cycled probes. */
struct gpu_on_phase gpu_on_phase = {};

/* Handles of the default streams, and of a stream that may be any. */
#define GPU_STREAM_LEGACY     1ULL
#define GPU_STREAM_PER_THREAD 2ULL
#define GPU_STREAM_UNKNOWN    (~0ULL)

/* The initial state of a process: all zero, and too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_idle);
} gpu_idle_initial SEC(".maps");

static __always_inline struct gpu_idle *find_gpu_idle(void)
{
	struct process_key process = gpu_current_process();
	struct gpu_idle *idle = bpf_map_lookup_elem(&gpu_idle, &process), *none;
	__u32 zero = 0;

	if (idle)
		return idle;
	none = bpf_map_lookup_elem(&gpu_idle_initial, &zero);
	if (!none)
		return NULL;
	bpf_map_update_elem(&gpu_idle, &process, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&gpu_idle, &process);
}

/* The exchange lets only one of two threads count the interval. */
static __always_inline void end_gpu_idle(struct gpu_idle *idle, __u64 now)
{
	__u64 from_ns = __sync_lock_test_and_set(&idle->from_ns, 0);
	__u64 end_ns = now < idle->end_ns ? now : idle->end_ns, at;

	if (!from_ns || end_ns <= from_ns)
		return;
	__sync_fetch_and_add(&idle->total_ns, (end_ns - from_ns) * idle->weight);
	at = __sync_fetch_and_add(&idle->next_recent, 1) & (GPU_IDLE_RECENT - 1);
	idle->recent[at].from_ns = from_ns;
	idle->recent[at].end_ns = end_ns;
}

/* A new on phase: calls in between were not seen, so each stream may have work. */
static __always_inline void begin_gpu_idle_phase(struct gpu_idle *idle)
{
	const volatile struct gpu_on_phase *phase = &gpu_on_phase;
	__u64 begin_ns = phase->begin_ns;

	if (idle->begin_ns == begin_ns)
		return;
	end_gpu_idle(idle, idle->end_ns);
	idle->seen_ns += idle->end_ns - idle->begin_ns;
	idle->begin_ns = begin_ns;
	idle->end_ns = phase->end_ns;
	idle->weight = phase->weight;
	if (idle->unknown_ns)
		idle->unknown_ns = begin_ns;
#pragma unroll
	for (__u32 i = 0; i < GPU_IDLE_STREAMS; i++) {
		struct gpu_idle_stream *stream = &idle->streams[i];

		if (stream->handle && ns_between(stream->used_ns, begin_ns) > GPU_IDLE_UNUSED_NS)
			stream->handle = 0;
		stream->enqueued_ns = begin_ns;
	}
}

/* Are all enqueueing calls seen now? */
static __always_inline bool is_on_phase(__u64 now)
{
	const volatile struct gpu_on_phase *phase = &gpu_on_phase;

	return phase->sees_all && now >= phase->begin_ns && now < phase->end_ns;
}

static __always_inline bool put_on_stream(struct gpu_idle_stream *stream, __u64 handle, __u64 now)
{
	if (stream->handle != handle &&
	    (stream->handle || __sync_val_compare_and_swap(&stream->handle, 0, handle)))
		return false;
	stream->used_ns = now;
	stream->enqueued_ns = now;
	stream->tid = (__u32)bpf_get_current_pid_tgid();
	return true;
}

/* The current thread enqueues work. Finds the process itself: see capture_gpu_stack(). */
__attribute__((noinline)) int gpu_idle_enqueue(__u64 handle, __u64 now)
{
	struct gpu_idle *idle;

	if (!is_on_phase(now))
		return 0;
	idle = find_gpu_idle();
	if (!idle)
		return 0;
	begin_gpu_idle_phase(idle);
	end_gpu_idle(idle, now);
	if (handle != GPU_STREAM_UNKNOWN) {
#pragma unroll
		for (__u32 i = 0; i < GPU_IDLE_STREAMS; i++) {
			if (put_on_stream(&idle->streams[i], handle, now))
				return 0;
		}
	}
	idle->unknown_ns = now;
	return 0;
}

static __always_inline bool is_stream_done(const struct gpu_idle_stream *stream, __u64 whole_ns)
{
	__u64 covered_ns = stream->covered_ns > whole_ns ? stream->covered_ns : whole_ns;
	__u64 margin_ns = stream->tid == (__u32)bpf_get_current_pid_tgid() ? 0 : GPU_IDLE_MARGIN_NS;

	return !stream->handle || covered_ns > stream->enqueued_ns + margin_ns;
}

static __always_inline bool is_all_done(const struct gpu_idle *idle)
{
	bool done = !idle->unknown_ns || idle->whole_ns > idle->unknown_ns + GPU_IDLE_MARGIN_NS;

	// The list has all of its streams if the process was seen for a while, or has waited for all streams.
	if (idle->seen_ns < GPU_IDLE_KNOWN_NS && idle->whole_ns <= idle->begin_ns)
		return false;
#pragma unroll
	for (__u32 i = 0; i < GPU_IDLE_STREAMS; i++)
		done &= is_stream_done(&idle->streams[i], idle->whole_ns);
	return done;
}

/* A wait that began at @ns covers the stream. A wait for all streams covers at least those of the thread. */
static __always_inline void cover_stream(struct gpu_idle_stream *stream, __u64 handle, __u64 ns)
{
	bool is_covered = handle == GPU_STREAM_UNKNOWN
				  ? stream->tid == (__u32)bpf_get_current_pid_tgid()
				  : stream->handle == handle;

	if (is_covered && stream->covered_ns < ns)
		stream->covered_ns = ns;
}

/* The current thread's wait for a stream, or for all of them (GPU_STREAM_UNKNOWN), succeeded. */
__attribute__((noinline)) int gpu_idle_waited(__u64 handle, __u64 began_ns, __u64 now)
{
	struct gpu_idle *idle;

	if (!is_on_phase(now))
		return 0;
	idle = find_gpu_idle();
	if (!idle)
		return 0;
	begin_gpu_idle_phase(idle);
	if (handle == GPU_STREAM_UNKNOWN) {
		if (idle->has_contexts)
			return 0;
		// A process not seen from its cuInit on may have contexts that are unknown here.
		if (idle->from_init)
			idle->whole_ns = began_ns;
	}
#pragma unroll
	for (__u32 i = 0; i < GPU_IDLE_STREAMS; i++)
		cover_stream(&idle->streams[i], handle, began_ns);
	if (idle->from_ns || !is_all_done(idle))
		return 0;
	idle->tid = bpf_get_current_pid_tgid();
	bpf_get_current_comm(idle->thread_name, sizeof(idle->thread_name));
	shared.gpu_idle_until_ns = idle->end_ns;
	idle->from_ns = now;
	return 0;
}

/* A thread of the process uses this context from now on. */
__attribute__((noinline)) int gpu_idle_context(__u64 context)
{
	struct gpu_idle *idle = context ? find_gpu_idle() : NULL;

	if (!idle)
		return 0;
	if (idle->context && idle->context != context)
		idle->has_contexts = 1;
	idle->context = context;
	return 0;
}

/* The current process calls cuInit and is seen from its beginning: all contexts will be known. Returns 1 the first time. */
__attribute__((noinline)) int gpu_idle_from_init(void)
{
	struct gpu_idle *idle = find_gpu_idle();

	return idle && !__sync_lock_test_and_set(&idle->from_init, 1);
}

/* A wait for an event covers the work that was on its stream when the event was recorded. */
__attribute__((noinline)) int gpu_idle_event(__u64 event, __u64 began_ns, __u64 now)
{
	struct gpu_key key = { gpu_current_process(), event, GPU_HANDLE_EVENT };
	const struct gpu_event *recorded = bpf_map_lookup_elem(&gpu_events, &key);

	// Recorded again during the wait: it is unknown which of the two the wait was for.
	if (!recorded || recorded->capture || recorded->recorded_ns >= began_ns)
		return 0;
	return gpu_idle_waited(recorded->stream, recorded->recorded_ns, now);
}

/* ---- which calls ------------------------------------------------------------------------------ */

/* The stream of a call; @is_named: the call has it as an argument. */
static __always_inline __u64 stream_of_call(__u32 flags, __u64 stream, bool is_named)
{
	if (!is_named && flags & GPU_CALL_ASYNC)
		return GPU_STREAM_UNKNOWN;
	if (!stream)
		stream = flags & GPU_CALL_PER_THREAD ? GPU_STREAM_PER_THREAD : GPU_STREAM_LEGACY;
	if (stream == GPU_STREAM_PER_THREAD)
		stream |= (__u64)(__u32)bpf_get_current_pid_tgid() << 32;
	return stream;
}

/* Of a launch, which passes its stream on the stack or in a structure. */
static __always_inline __u64 stream_of_launch(gpu_context *ctx, __u64 cookie)
{
	__u32 flags = gpu_cookie_flags(cookie);
	struct launch_config config = {};
	__u64 more[3] = {};

	if (gpu_cookie_call(cookie) == GPU_CALL_LAUNCH_EX) {
		if (bpf_probe_read_user(&config, sizeof(config), (const void *)GPU_ARGUMENT_1(ctx)))
			return GPU_STREAM_UNKNOWN;
		return stream_of_call(flags, config.stream, true);
	}
#if defined(__TARGET_ARCH_x86)
	read_stack_arguments(ctx, more, sizeof(more));
	return stream_of_call(flags, more[2], true);
#else
	read_stack_arguments(ctx, more, sizeof(more[0]));
	return stream_of_call(flags, more[0], true);
#endif
}

/* Record the work that a call enqueues, if it does. */
__attribute__((noinline)) int note_enqueue(__u64 cookie, __u64 stream, __u64 now)
{
	__u32 number = gpu_cookie_call(cookie), flags = gpu_cookie_flags(cookie);
	bool is_named = gpu_cookie_stream_at(cookie) != GPU_ARGUMENT_NONE;

	if (!is_copy(number) && number != GPU_CALL_ENQUEUE && number != GPU_CALL_GRAPH_LAUNCH &&
	    number != GPU_CALL_LAUNCH_HOST_FUNC)
		return 0;
	// Copies without a stream argument use the default stream; of other calls the stream is unknown.
	if (is_copy(number) && number != GPU_CALL_COPY_BATCH)
		is_named = true;
	return gpu_idle_enqueue(stream_of_call(flags | GPU_CALL_ASYNC, stream, is_named), now);
}

/* Record what a successful call has waited for, if it did. */
__attribute__((noinline)) int note_wait(__u64 cookie, __u64 handle, __u64 began_ns, __u64 now)
{
	__u32 number = gpu_cookie_call(cookie), flags = gpu_cookie_flags(cookie);

	if (number == GPU_CALL_SYNC_CONTEXT)
		return gpu_idle_waited(GPU_STREAM_UNKNOWN, began_ns, now);
	if (number == GPU_CALL_SYNC_EVENT)
		return gpu_idle_event(handle, began_ns, now);
	if (number == GPU_CALL_SYNC_STREAM)
		return gpu_idle_waited(stream_of_call(flags, handle, true), began_ns, now);
	if (number == GPU_CALL_COPY_DTOH && !(flags & GPU_CALL_ASYNC))
		return gpu_idle_waited(stream_of_call(flags, 0, true), began_ns, now);
	return 0;
}
