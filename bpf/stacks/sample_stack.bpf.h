/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The stack of the thread that a perf event interrupts: the kernel part by the kernel's unwinder, the user
// part by ours. New processes are unwound later, from a snapshot. The program defines read_user().
#pragma once

#include "bpf/stacks/kernel_stack.bpf.h"
#include "bpf/stacks/kernel_stack_cache.bpf.h"
#include "bpf/stacks/pending_returns.bpf.h"
#include "bpf/stacks/registers.h"
#include "bpf/stacks/snapshot.bpf.h"
#include "bpf/stacks/stack_work.bpf.h"

/* Per program and CPU: runs do not overlap there (perf's recursion guard). */
struct sample_stack {
	struct snapshot_record snapshot;
	struct snapshot_budget snapshot_budget;
	struct kernel_addresses kernel_addresses;
	struct kernel_cache_work kernel_cache;
	__u64 holds_gil;        // with only_gil: the thread holds the GIL
	struct stack_work work; // last: it ends in the stack's frames
};

/* Returns true if the agent has the sample now and unwinds it later. */
static __always_inline bool try_snapshot(struct sample_stack *stack, __u64 now,
					 struct task_struct *task, const struct count_key *key,
					 __u64 value)
{
	struct snapshot_record *snapshot = &stack->snapshot;

	if (stack->work.unwind.end != STACK_END_NO_MAPPING ||
	    !snapshot_is_affordable(&stack->snapshot_budget, now))
		return false;
	snapshot->key = *key;
	snapshot->count.value = value;
	snapshot->count.samples = 1;
	bpf_probe_read_kernel_str(snapshot->process_name, sizeof(snapshot->process_name),
				  &task->group_leader->comm);
	return snapshot_send(snapshot, now);
}

/* A function of its own, for the stack of older kernels. */
static __attribute__((noinline)) int unwound_holds_gil(const struct unwind *unwind)
{
	const struct python_offsets *offsets = python_offsets_at(unwind->process.python.runtime);

	return offsets && python_holds_gil(unwind, offsets);
}

/*
 * Registers are in stack->work.unwind, unless the code is not @is_64_bit. Returns true if the agent has the
 * sample: it is not counted here.
 */
static __always_inline bool sample_user_stack(struct sample_stack *stack, __u64 now,
					      struct task_struct *task, bool is_64_bit, __u64 value,
					      struct count_key *key)
{
	struct unwind *unwind = &stack->work.unwind;
	bool is_new;

	find_unwind_process(unwind, &key->process);
	unwind->thread_pointer = thread_pointer_of(task);
	note_pending_returns(unwind, task);
	is_new = !unwind->process.mapping_page_count || unwind->process.tables_pending;
	if (send_snapshots && is_new)
		snapshot_begin(&stack->snapshot, unwind);
	unwind_user_stack(&stack->work, is_64_bit);
	if (only_gil)
		stack->holds_gil = unwound_holds_gil(unwind);
	if (send_snapshots && is_new && try_snapshot(stack, now, task, key, value))
		return true;

	record_user_stack(&stack->work, now, task->group_leader->comm, key);
	return false;
}

/* Returns the number of addresses. */
static __always_inline __u32 unwind_kernel_stack(struct sample_stack *stack, __u64 now,
						 struct bpf_perf_event_data *ctx, __u64 pc,
						 struct count_key *key)
{
	__u64 *addresses = stack->kernel_addresses.at;
	long size = bpf_get_stack(ctx, addresses, KERNEL_DEPTH_MAX * sizeof(*addresses), 0);
	__u32 depth = size > 0 ? (__u32)size / sizeof(*addresses) : 0;

	count_many(COUNTER_KERNEL_FRAMES, depth);
	key->kernel_leaf = depth ? addresses[0] : pc;
	key->kernel = record_kernel_stack(&stack->work, now, &stack->kernel_addresses,
					  key->kernel_leaf, 1, depth ? depth - 1 : 0,
					  depth == KERNEL_DEPTH_MAX ? STACK_END_DEPTH
								    : STACK_END_COMPLETE);
	return depth;
}

/*
 * Returns 1 if the stack was cached. A function of its own: 6.1 allows 512 bytes of stack to all that call each other,
 * and the user part needs most.
 */
static __attribute__((noinline)) int sample_kernel_stack(struct sample_stack *stack, __u64 now,
							 struct bpf_perf_event_data *ctx,
							 struct task_struct *task,
							 struct count_key *key)
{
	const struct pt_regs___saved *saved = (void *)bpf_task_pt_regs(task);
	struct interrupted interrupted = interrupted_by_tick(ctx);
	struct kernel_cache_work *work = &stack->kernel_cache;
	struct kernel_stack_entry *cached = NULL;
	struct kernel_stack_set *set;
	struct stack_hash expected;
	__u32 depth;

	set = find_kernel_stack_set(work, &interrupted, saved);
	if (set)
		cached = find_kernel_stack(set, &work->at, &expected);
	if (cached && ++work->hits % KERNEL_CACHE_CHECK_EVERY && stack_is_sent(&expected)) {
		key->kernel_leaf = interrupted.pc;
		key->kernel = expected;
		count(COUNTER_KERNEL_CACHE_HITS);
		return 1;
	}
	depth = unwind_kernel_stack(stack, now, ctx, interrupted.pc, key);
	if (cached)
		check_kernel_stack(work, cached, &expected, &key->kernel);
	else if (set)
		cache_kernel_stack(work, set, &stack->kernel_addresses, depth, &key->kernel);
	return 0;
}

/*
 * Uses what sample_kernel_stack() returns: else the compiler would not set it, and the verifier refuses what is in
 * the register then.
 */
static __always_inline void add_kernel_stack(struct sample_stack *stack, __u64 now,
					     struct bpf_perf_event_data *ctx,
					     struct task_struct *task, struct count_key *key)
{
	int rc = sample_kernel_stack(stack, now, ctx, task, key);

	HIDE_FROM_COMPILER(rc);
}

/* Fills in the stack of @key. Returns true if the agent has the sample: it is not counted here. */
static __always_inline bool sample_stack(struct sample_stack *stack, __u64 now,
					 struct bpf_perf_event_data *ctx, struct task_struct *task,
					 __u64 value, struct count_key *key)
{
	struct interrupted interrupted = interrupted_by_tick(ctx);
	bool is_64_bit;

	stack->holds_gil = 0;
	if (!interrupted.user)
		add_kernel_stack(stack, now, ctx, task, key);
	if (!task->mm || (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER)))
		return false;
	is_64_bit = interrupted.user ? registers_of_tick(&stack->work.unwind, ctx)
				     : registers_of_user(&stack->work.unwind, task);
	return sample_user_stack(stack, now, task, is_64_bit, value, key);
}

/*
 * Fills in process, thread and slot of @key, which is zero. Not returned by value: the copy does not fit
 * older kernels' BPF stack.
 */
static __always_inline void key_of_current(struct task_struct *task, __u64 now,
					   struct count_key *key)
{
	struct task_struct *leader = task->group_leader;

	key->process.pid = bpf_get_current_pid_tgid() >> 32;
	key->process.exec_id = leader->self_exec_id;
	key->process.start_ns = leader->start_boottime;
	key->slot = (now + shared.realtime_offset_ns) / slot_ns;
	bpf_get_current_comm(key->thread_name, sizeof(key->thread_name));
}
