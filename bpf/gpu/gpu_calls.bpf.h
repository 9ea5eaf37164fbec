/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Which GPU calls count and with which weight, and calls that are tracked from entry to return.
#pragma once

#include "bpf/gpu/gpu_idle_state.bpf.h"
#include "bpf/gpu/gpu_memory.bpf.h"
#include "bpf/gpu/gpu_stack.bpf.h"

/* Set before load. */
const volatile bool gpu_keep_calls = false; // for tests

/*
 * Set at any time: the generation of always attached probes that counts, GPU_CALL_GENERATION or 0. To replace these
 * probes the agent attaches the new generation beside the old one, and hardly a call is missed or counted twice.
 */
__u32 gpu_generation = 0;

/* The last call that a probe read. For tests. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_call_record);
} gpu_last_call SEC(".maps");

static __always_inline void keep_call(const struct gpu_call_record *record)
{
	__u32 zero = 0;

	if (gpu_keep_calls)
		bpf_map_update_elem(&gpu_last_call, &zero, record, BPF_ANY);
}

/* ---- which calls are counted ------------------------------------------------------------------ */

#define GPU_CAPTURED_MORE 10 // stacks of captured launches for each stack of other calls

enum gpu_pace { GPU_PACE_LAUNCHES, GPU_PACE_OTHERS, GPU_PACE_CAPTURED, GPU_PACE_COUNT };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GPU_PACE_COUNT);
	__type(key, __u32);
	__type(value, struct pace);
} gpu_paces SEC(".maps");

/* The weight of this call's stack; 0: sampled out. */
static __always_inline __u32 choose_call(__u32 which)
{
	struct pace *pace = bpf_map_lookup_elem(&gpu_paces, &which);
	struct pace_limit limit = { .stacks = gpu_stacks_per_second };

	return pace ? pace_sample(pace, &limit, COUNTER_GPU_CALLS_DROPPED) : 0;
}

/* Likewise of a captured launch. It gets a larger share: each launch of the graph will count with its stack. */
static __always_inline __u32 choose_captured(void)
{
	__u32 which = GPU_PACE_CAPTURED;
	struct pace *pace = bpf_map_lookup_elem(&gpu_paces, &which);
	struct pace_limit limit = { .stacks = gpu_stacks_per_second * GPU_CAPTURED_MORE };

	return pace ? pace_sample(pace, &limit, COUNTER_GPU_CALLS_DROPPED) : 0;
}

static __always_inline bool is_wanted(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	return !only_targets || bpf_map_lookup_elem(&target_pids, &pid);
}

/* Runs of the programs by kind of call, entries plus returns: the probes' cost follows from it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GPU_CALL_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} gpu_hits SEC(".maps");

static __always_inline void count_hit(__u64 cookie)
{
	__u32 call = gpu_cookie_call(cookie);
	__u64 *hits = bpf_map_lookup_elem(&gpu_hits, &call);

	if (hits)
		*hits += 1;
}

/*
 * The weight of a call by the probe duty cycle. 0: outside of an on phase, or another probe at this place counts the
 * call.
 */
static __always_inline __u32 duty_cycle_weight(__u64 cookie, __u64 now)
{
	const volatile struct gpu_on_phase *phase = &gpu_on_phase;
	__u32 generation = *(const volatile __u32 *)&gpu_generation;
	__u32 flags = gpu_cookie_flags(cookie), call = gpu_cookie_call(cookie);

	if (!(flags & GPU_CALL_DUTY_CYCLED))
		return (call >= GPU_CALL_MEMORY_FIRST && call <= GPU_CALL_MEMORY_LAST) ||
		       (flags & GPU_CALL_GENERATION) == generation;
	return now >= phase->begin_ns && now < phase->end_ns ? phase->weight : 0;
}

/* ---- counting --------------------------------------------------------------------------------- */

static __always_inline void begin_key(struct gpu_work *work, __u64 now)
{
	struct count_key *key = &work->key;

	__builtin_memset(key, 0, sizeof(*key));
	key_of_current(bpf_get_current_task_btf(), now, key);
	work->device.tag = 0;
	work->may_hand_over = 0;
}

/* The work has the registers to unwind from. */
static __always_inline void count_with_stack(struct gpu_work *work, __u64 now, __u32 kind,
					     __u64 value, __u64 samples)
{
	work->key.kind = kind;
	work->value = value;
	work->may_hand_over = 1;
	if (!capture_gpu_stack(work->number, now))
		add_count(&work->key, value, samples);
}

static __always_inline void own_stack(const struct gpu_work *work, struct gpu_owner *owner)
{
	owner->process = work->key.process;
	__builtin_memcpy(owner->thread_name, work->key.thread_name, sizeof(owner->thread_name));
	owner->user = work->key.user;
	owner->leaf = work->key.user_leaf;
}

/* With its stack, unless that is sampled out. */
static __always_inline void capture_owner(struct gpu_work *work, __u64 now, struct gpu_owner *owner)
{
	work->may_hand_over = 0;
	if (choose_call(GPU_PACE_OTHERS))
		capture_gpu_stack(work->number, now);
	own_stack(work, owner);
}

/* ---- calls that are tracked to their return --------------------------------------------------- */

#define GPU_CALLS_WITHIN 4

/* A call that has not returned. */
struct open_call {
	__u64 place; // address of its return address; on aarch64 sp at its entry
	__u64 began_ns;
	__u64 cookie;
	__u64 entry_pc;
	__u64 return_address;
	__u64 arguments[4];
	__u64 bytes;
	__u64 kind;   // of a copy: enum sample_kind
	__u64 weight; // by the duty cycle
};

struct open_calls {
	__u64 count;
	struct open_call at[GPU_CALLS_WITHIN]; // the outermost first
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_calls);
} gpu_open_calls SEC(".maps");

static __always_inline struct open_calls *open_calls_of_thread(__u64 flags)
{
	return bpf_task_storage_get(&gpu_open_calls, bpf_get_current_task_btf(), NULL, flags);
}

/* Calls deeper in the stack left without a return: by an exception or a longjmp(). */
static __always_inline void drop_left_calls(struct open_calls *calls, __u64 place)
{
	__u64 left = 0;

#pragma unroll
	for (__u32 i = 0; i < GPU_CALLS_WITHIN; i++)
		left += i < calls->count && calls->at[i].place > place;
	calls->count = left;
}

/* A call begins that has a return probe but is not tracked. */
static __always_inline void leave_calls(gpu_context *ctx)
{
	struct open_calls *calls = open_calls_of_thread(0);

	if (calls)
		drop_left_calls(calls, GPU_STACK(ctx));
}

static __always_inline void open_call(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
				      __u64 now, __u32 kind)
{
	struct open_calls *calls = open_calls_of_thread(BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 place = GPU_STACK(ctx), at;
	struct open_call *call;

	if (!calls) {
		note_missed_memory_call(gpu_cookie_call(cookie));
		return;
	}
	drop_left_calls(calls, place);
	at = calls->count;
	if (at >= GPU_CALLS_WITHIN) {
		count(COUNTER_GPU_CALLS_NESTED);
		note_missed_memory_call(gpu_cookie_call(cookie));
		return;
	}
	call = &calls->at[at];
	call->place = place;
	call->began_ns = now;
	call->cookie = cookie;
	call->entry_pc = pc_of(ctx);
	call->return_address = return_address_at_entry(ctx);
	__builtin_memcpy(call->arguments, work->arguments.at, sizeof(call->arguments));
	call->bytes = work->call.bytes;
	call->kind = kind;
	call->weight = work->weight;
	calls->count = at + 1;
}

/* The call that returns now; NULL: its entry was not seen. */
static __always_inline struct open_call *close_call(gpu_context *ctx)
{
	struct open_calls *calls = open_calls_of_thread(0);
	struct open_call *found = NULL;
	__u64 place = GPU_STACK(ctx);

#if defined(__TARGET_ARCH_x86)
	place -= sizeof(place);
#endif
	if (!calls)
		return NULL;
	for (__u32 i = 0; i < GPU_CALLS_WITHIN; i++) {
		if (i >= calls->count || calls->at[i].place != place)
			continue;
		found = &calls->at[i];
		calls->count = i;
		break;
	}
	return found;
}
