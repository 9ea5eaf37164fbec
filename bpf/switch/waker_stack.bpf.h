/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The stack of a waker, joined with the stack of the blocked thread. switch_stack.bpf.h does the capture;
// the functions it skips are those that wake a thread.
#pragma once

#include "bpf/switch/switch_stack.bpf.h"

/*
 * Where interrupts enter the kernel: the interrupted thread is no waker. A softirq that a thread runs
 * itself, as on a send over loopback, belongs to the thread. Set before load.
 */
const volatile __u64 interrupt_start = 0;
const volatile __u64 interrupt_bytes = 0;

/* Functions that wake a thread when its own timer expires. Set before load. */
#define TIMER_FUNCTIONS 2

const volatile __u64 timer_start[TIMER_FUNCTIONS] = {};
const volatile __u64 timer_bytes[TIMER_FUNCTIONS] = {};

/* ---- the waker's stack ------------------------------------------------------------------------ */

static __always_inline bool is_of_interrupt(__u64 address)
{
	return address - interrupt_start < interrupt_bytes;
}

static __always_inline bool is_of_timer(__u64 address)
{
	bool found = false;

#pragma unroll
	for (__u32 i = 0; i < TIMER_FUNCTIONS; i++)
		found |= address - timer_start[i] < timer_bytes[i];
	return found;
}

/* Leaves in walk->first the frame after the interrupt's entry; 0: none. */
static long find_interrupt(__u32 index, struct kernel_walk *walk)
{
	if (index >= KERNEL_DEPTH_MAX)
		return 1;
	if (!is_of_interrupt(walk->addresses->at[index]))
		return 0;
	walk->first = index + 1;
	return 1;
}

/* Drops the frames of the interrupted thread. Returns enum waker_kind. */
static __always_inline __u32 classify_waker(struct switch_stack *stack, struct task_struct *task)
{
	struct kernel_walk walk = { .addresses = &stack->kernel };
	__u32 depth = stack->kernel_depth;

	if (depth > KERNEL_DEPTH_MAX) // for the verifier
		return WAKER_INTERRUPT;
	bpf_loop(depth, find_interrupt, &walk, 0);
	if (walk.first)
		stack->kernel_depth = walk.first;
	if (walk.first || !task->pid)
		return WAKER_INTERRUPT;
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) ? WAKER_KERNEL_THREAD
									  : WAKER_THREAD;
}

static __always_inline void name_waker(struct wake_record *record, struct task_struct *task)
{
	__builtin_memset(record->waker_name, 0, sizeof(record->waker_name));
	if (record->waker_kind != WAKER_INTERRUPT)
		bpf_probe_read_kernel(record->waker_name, sizeof(record->waker_name), task->comm);
}

/* Captures the current thread's stack into @record. Its kernel addresses are captured. */
__attribute__((noinline)) int capture_waker(struct wake_record *record, struct stack_cache *cache,
					    __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct switch_stack *stack = switch_stack_of_cpu();
	struct count_key *key;

	if (!record || !cache || !stack)
		return 0;
	key = &stack->key;
	record->waker_kind = classify_waker(stack, task);
	name_waker(record, task);
	stack->context.call = 0;
	key_of_thread(task, key);
	capture_kernel_stack(stack, now);
	// A thread that exits wakes others after it has dropped its memory.
	if (record->waker_kind == WAKER_THREAD && task->mm) {
		capture_user_stack(stack, cache, task, now);
		record->waker.process = key->process;
		record->waker.user = key->user;
		record->waker.user_leaf = key->user_leaf;
	} else {
		record->waker.process = (struct process_key){};
		record->waker.user = (struct stack_hash){};
		record->waker.user_leaf = (struct raw_frame){};
	}
	record->waker.kernel = key->kernel;
	record->waker.kernel_leaf = key->kernel_leaf;
	return 0;
}

/* ---- both stacks ------------------------------------------------------------------------------ */

#define WAKE_HASHED_BLOCKS \
	((sizeof(struct wake_record) - offsetof(struct wake_record, blocked)) / 16)

static __always_inline void send_wake(struct wake_record *record, __u64 now)
{
	struct stack_hash joined =
		record->joined; // older kernels accept map keys on the stack only
	__u32 yes = 1;

	if (stack_is_sent(&joined))
		return;
	record->kind = RECORD_WAKE;
	if (bpf_ringbuf_output(&records, record, sizeof(*record), wake_flags(now))) {
		count(COUNTER_RING_FULL); // it is sent again with the next wake-up
		return;
	}
	if (bpf_map_update_elem(&sent_stacks, &joined, &yes, BPF_ANY))
		count(COUNTER_SENT_STACKS_FULL);
}

/* @record has the waker: joins it with the stack of @blocked. */
__attribute__((noinline)) int join_stacks(struct wake_record *record,
					  const struct count_key *blocked, __u64 now)
{
	struct stack_hasher hasher;
	const __u64 *words;

	if (!record || !blocked)
		return 0;
	record->blocked.process = blocked->process;
	record->blocked.user = blocked->user;
	record->blocked.kernel = blocked->kernel;
	record->blocked.user_leaf = blocked->user_leaf;
	record->blocked.kernel_leaf = blocked->kernel_leaf;
	stack_hash_begin(&hasher, &blocked->process);
	words = (const __u64 *)&record->blocked;
#pragma unroll
	for (__u32 i = 0; i < WAKE_HASHED_BLOCKS; i++)
		hash_block(&hasher, words[2 * i], words[2 * i + 1]);
	record->joined = stack_hash_finish(&hasher, record->waker_kind, 0);
	send_wake(record, now);
	return 0;
}
