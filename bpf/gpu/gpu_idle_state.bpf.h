/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// How a process's GPU becomes idle, and stops being so: by the driver's calls. What for: gpu_idle.bpf.h.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_arguments.bpf.h"
#include "bpf/gpu/gpu_events.bpf.h"
#include "bpf/gpu/gpu_idle.bpf.h"

/* Set at any time, for probes that are there a part of the time: launches, and what is too hot. */
struct gpu_window gpu_window = {};

/* Handles as they are kept: of default streams, and of what may be any. */
#define GPU_STREAM_LEGACY     1ULL
#define GPU_STREAM_PER_THREAD 2ULL
#define GPU_STREAM_UNKNOWN    (~0ULL)

/* What a process's state begins as: too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_idle);
} gpu_not_idle SEC(".maps");

static __always_inline struct gpu_idle *find_gpu_idle(void)
{
	struct process_key process = gpu_current_process();
	struct gpu_idle *idle = bpf_map_lookup_elem(&gpu_idle, &process), *none;
	__u32 zero = 0;

	if (idle)
		return idle;
	none = bpf_map_lookup_elem(&gpu_not_idle, &zero);
	if (!none)
		return NULL;
	bpf_map_update_elem(&gpu_idle, &process, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&gpu_idle, &process);
}

/* It is over. Of two that see its end one counts it. */
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

/* A new window begins: what was put on streams between is not known, so each may have work. */
static __always_inline void begin_gpu_idle_window(struct gpu_idle *idle)
{
	const volatile struct gpu_window *window = &gpu_window;
	__u64 begin_ns = window->begin_ns;

	if (idle->begin_ns == begin_ns)
		return;
	end_gpu_idle(idle, idle->end_ns);
	idle->seen_ns += idle->end_ns - idle->begin_ns;
	idle->begin_ns = begin_ns;
	idle->end_ns = window->end_ns;
	idle->weight = window->weight;
	if (idle->unknown_ns)
		idle->unknown_ns = begin_ns;
#pragma unroll
	for (__u32 i = 0; i < GPU_IDLE_STREAMS; i++) {
		struct gpu_idle_stream *stream = &idle->streams[i];

		if (stream->handle && ns_between(stream->used_ns, begin_ns) > GPU_IDLE_FORGET_NS)
			stream->handle = 0;
		stream->enqueued_ns = begin_ns;
	}
}

/* Is all seen now that is put on streams? */
static __always_inline bool is_gpu_window(__u64 now)
{
	const volatile struct gpu_window *window = &gpu_window;

	return window->sees_all && now >= window->begin_ns && now < window->end_ns;
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

/* The current thread puts something on a stream. By number: see take_gpu_stack(). */
__attribute__((noinline)) int gpu_idle_enqueue(__u64 handle, __u64 now)
{
	struct gpu_idle *idle;

	if (!is_gpu_window(now))
		return 0;
	idle = find_gpu_idle();
	if (!idle)
		return 0;
	begin_gpu_idle_window(idle);
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

	// That a process has no other streams is known from what it does, or from a wait for all of them.
	if (idle->seen_ns < GPU_IDLE_KNOWN_NS && idle->whole_ns <= idle->begin_ns)
		return false;
#pragma unroll
	for (__u32 i = 0; i < GPU_IDLE_STREAMS; i++)
		done &= is_stream_done(&idle->streams[i], idle->whole_ns);
	return done;
}

/* What was put there before has been waited for. A wait for all is at least one for the thread's own streams. */
static __always_inline void cover_stream(struct gpu_idle_stream *stream, __u64 handle, __u64 ns)
{
	bool is_covered = handle == GPU_STREAM_UNKNOWN
				  ? stream->tid == (__u32)bpf_get_current_pid_tgid()
				  : stream->handle == handle;

	if (is_covered && stream->covered_ns < ns)
		stream->covered_ns = ns;
}

/* A wait of the current thread for a stream, or for all (GPU_STREAM_UNKNOWN), has ended well. */
__attribute__((noinline)) int gpu_idle_waited(__u64 handle, __u64 began_ns, __u64 now)
{
	struct gpu_idle *idle;

	if (!is_gpu_window(now))
		return 0;
	idle = find_gpu_idle();
	if (!idle)
		return 0;
	begin_gpu_idle_window(idle);
	if (handle == GPU_STREAM_UNKNOWN) {
		if (idle->has_contexts)
			return 0;
		// Others may use contexts that were there before anybody looked.
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

/* The current process begins to use its GPUs, and is watched: all contexts will be seen. Returns 1 the first time. */
__attribute__((noinline)) int gpu_idle_from_init(void)
{
	struct gpu_idle *idle = find_gpu_idle();

	return idle && !__sync_lock_test_and_set(&idle->from_init, 1);
}

/* The current thread has waited for an event: for all that was on its stream when it was recorded. */
__attribute__((noinline)) int gpu_idle_event(__u64 event, __u64 began_ns, __u64 now)
{
	struct gpu_key key = { gpu_current_process(), event, GPU_HANDLE_EVENT };
	const struct gpu_event *recorded = bpf_map_lookup_elem(&gpu_events, &key);

	// If it was recorded again since, nobody knows which of the two was waited for.
	if (!recorded || recorded->capture || recorded->recorded_ns >= began_ns)
		return 0;
	return gpu_idle_waited(recorded->stream, recorded->recorded_ns, now);
}

/* ---- which calls ------------------------------------------------------------------------------ */

/* The stream that a call is for; @is_named: it is an argument. */
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

/* Of a launch, which names its stream on the stack, or in memory. */
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

/* Does the call put something on a stream? Which one is read from its arguments. */
__attribute__((noinline)) int note_enqueue(__u64 cookie, __u64 stream, __u64 now)
{
	__u32 number = gpu_cookie_call(cookie), flags = gpu_cookie_flags(cookie);
	bool is_named = gpu_cookie_stream_at(cookie) != GPU_ARGUMENT_NONE;

	if (!is_copy(number) && number != GPU_CALL_ENQUEUE && number != GPU_CALL_GRAPH_LAUNCH &&
	    number != GPU_CALL_LAUNCH_HOST_FUNC)
		return 0;
	// Of copies those that have no stream are the default one's; of others it is not known which.
	if (is_copy(number) && number != GPU_CALL_COPY_BATCH)
		is_named = true;
	return gpu_idle_enqueue(stream_of_call(flags | GPU_CALL_ASYNC, stream, is_named), now);
}

/* Has the call, which has ended well, waited for all that a stream had to do? */
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
