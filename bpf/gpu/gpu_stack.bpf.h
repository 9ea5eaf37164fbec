/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The stack of a thread at the entry or the return of a GPU call. The leaf is the driver's function, or the GPU kernel that it
// launches; the rest is unwound from the call's return address.
#pragma once

#include "bpf/gpu/gpu_arguments.bpf.h"
#include "bpf/stacks/pace.bpf.h"
#include "bpf/stacks/sample_stack.bpf.h"

/* Set at any time: about how many stacks per second a CPU captures, of launches and of other calls each. */
__u32 gpu_stacks_per_second = 500;

/* Scratch space for one call: too large for a program's stack. */
struct gpu_work {
	__u32 busy;
	__u32 number; // index in gpu_works
	struct count_key key;
	__u64 weight; // of the call, by the duty cycle
	struct gpu_call_record call;
	struct gpu_arguments arguments;
	__u64 value;             // in the kind's unit
	__u64 entry_pc;          // of its function
	struct raw_frame device; // the GPU kernel that it launches; tag 0: none
	__u64 may_hand_over;     // the agent may unwind the sample later
	struct gpu_name name;
	struct gpu_allocation made;
	struct gpu_graph graph;
	struct gpu_graph_kernel captured;
	struct gpu_sampled_launch sampled_launch;
	struct sample_stack stack; // last: it ends with the frames
};

_Static_assert(sizeof(struct gpu_work) <= 32768, "the largest value of a per-CPU map");

/* Two per CPU: on a preemptible kernel another thread may hit a probe while a program of this CPU is preempted. */
#define GPU_WORKS 2

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GPU_WORKS);
	__type(key, __u32);
	__type(value, struct gpu_work);
} gpu_works SEC(".maps");

static __always_inline struct gpu_work *gpu_work_of_cpu(__u32 number)
{
	return bpf_map_lookup_elem(&gpu_works, &number);
}

static __always_inline struct gpu_work *claim_gpu_work(void)
{
	struct gpu_work *work = gpu_work_of_cpu(0);

	if (work && !__sync_val_compare_and_swap(&work->busy, 0, 1)) {
		work->number = 0;
		return work;
	}
	work = gpu_work_of_cpu(1);
	if (work && !__sync_val_compare_and_swap(&work->busy, 0, 1)) {
		work->number = 1;
		return work;
	}
	count(COUNTER_GPU_CALLS_BUSY);
	return NULL;
}

static __always_inline void release_gpu_work(struct gpu_work *work)
{
	__sync_lock_test_and_set(&work->busy, 0);
}

/* ---- registers -------------------------------------------------------------------------------- */

/* The return address of the call that is being entered. */
static __always_inline __u64 return_address_at_entry(gpu_context *ctx)
{
#if defined(__TARGET_ARCH_x86)
	__u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (const void *)ctx->rsp);
	return address;
#else
	return ctx->regs[30];
#endif
}

static __always_inline __u64 pc_of(gpu_context *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return ctx->rip;
#else
	return ctx->pc;
#endif
}

/* The caller's registers after the call: at entry and return the callee-saved ones have the caller's values. */
static __always_inline void set_registers(struct gpu_work *work, gpu_context *ctx,
					  __u64 return_address, bool is_entry)
{
	struct unwind *unwind = &work->stack.work.unwind;

	// The context of a uprobe begins like that of a perf event: with the user's registers.
	registers_of_tick(unwind, (const volatile struct bpf_perf_event_data *)ctx);
	unwind->pc = return_address;
	unwind->exact_pc = 0;
#if defined(__TARGET_ARCH_x86)
	if (is_entry)
		unwind->registers[REGISTER_SP] += sizeof(__u64);
#endif
}

/* ---- the stack -------------------------------------------------------------------------------- */

static __always_inline void begin_gpu_stack(struct gpu_work *work)
{
	struct unwind *unwind = &work->stack.work.unwind;
	struct unwind_walk walk = { .unwind = unwind };

	if (begin_user_stack(unwind, true)) {
		if (work->device.tag)
			unwind_add(unwind, work->device.address, work->device.tag,
				   work->device.detail);
		unwind_add(unwind, work->entry_pc, FRAME_TAG_NATIVE, 0);
		bpf_loop(UNWIND_STEPS_MAX, walk_unwind, &walk, 0);
	}
	end_user_stack(unwind);
}

/*
 * Capture the stack into the work's key. Returns 1 if the caller must not count the sample: the agent unwinds and counts it
 * later. Takes the index of the work, not a pointer: old kernels refuse an argument's memory as a map key.
 */
__attribute__((noinline)) int capture_gpu_stack(__u32 number, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct gpu_work *work = gpu_work_of_cpu(number);
	struct unwind *unwind;
	bool is_new;

	if (!work)
		return 0;
	unwind = &work->stack.work.unwind;
	find_unwind_process(unwind, &work->key.process);
	unwind->thread_pointer = thread_pointer_of(task);
	note_pending_returns(unwind, task);
	is_new = !unwind->process.mapping_page_count || unwind->process.tables_pending;
	is_new = is_new && send_snapshots && work->may_hand_over;
	if (is_new)
		snapshot_begin(&work->stack.snapshot, unwind);
	begin_gpu_stack(work);
	count(COUNTER_GPU_STACKS);
	if (is_new && try_snapshot(&work->stack, now, task, &work->key, work->value))
		return 1;
	record_user_stack(&work->stack.work, now, task->group_leader->comm, &work->key);
	return 0;
}
