// SPDX-License-Identifier: GPL-2.0-only
// Stacks of long sleepers whose stack is truncated or missing: captured before the process's unwind
// tables were loaded or when the ring was full, asleep since before the agent started, or sampled out. The agent runs a pass now
// and then; the rest of the sleep has the stack.

#include "bpf/kernel.h"
#include "bpf/maps.bpf.h"
#include "bpf/stacks/pending_returns.bpf.h"
#include "bpf/stacks/registers.h"
#include "bpf/stacks/stack_work.bpf.h"
#include "bpf/switch/thread.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Since Linux 6.2. Without them only the copied stack is readable: no Python frames. */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;
const volatile bool can_find_tasks = false; // set before load

/* Set by the agent before each pass: its number and its deadline. */
__u32 pass = 0;
__u64 pass_end_ns = 0;

/* The earliest pass that a thread left over is due in; 0: none is left. */
__u32 next_pass = 0;

/* The thread whose memory read_user() reads. */
static __u32 reading_tid = 0;

/* As many bytes of the stack as a snapshot has: few stacks are deeper. */
#define SLEEPER_PAGES 4
#define PAGE_BYTES    4096

struct sleeper {
	struct count_key key; // only the thread and its stack
	__u64 stack_start;
	__u64 stack_bytes;
	__u8 stack[SLEEPER_PAGES * PAGE_BYTES];
	struct stack_work work; // last: it ends in the stack's frames
};

/* One pass runs at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

static __always_inline long read_elsewhere(void *to, __u32 size, __u64 address)
{
	struct task_struct *task;
	long rc;

	if (!can_find_tasks)
		return -EFAULT;
	task = bpf_task_from_pid(reading_tid);
	if (!task)
		return -EFAULT;
	rc = bpf_copy_from_user_task(to, size, (const void *)address, task, 0);
	bpf_task_release(task);
	return rc;
}

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	// Older kernels accept constant bounds only. Python frames alone have a size known at run time;
	// frames that reach into the last bytes of a stack are not read.
	const __u32 size_max = __builtin_constant_p(size) ? size : PYTHON_FRAME_BYTES_MAX;
	__u32 zero = 0;
	const struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &zero);
	__u64 offset, bytes;

	if (!sleeper)
		return -EFAULT;
	offset = address - sleeper->stack_start;
	bytes = sleeper->stack_bytes;
	if (bytes > sizeof(sleeper->stack) || size > bytes || offset > bytes - size)
		return read_elsewhere(to, size, address);
	HIDE_FROM_COMPILER(offset); // keep the bound: older verifiers need it
	if (offset > sizeof(sleeper->stack) - size_max)
		return -EFAULT;
	return bpf_probe_read_kernel(to, size, sleeper->stack + offset);
}

/* ---- which threads ------------------------------------------------------------------------------ */

/* A stack that stays truncated is tried again after 2, 4, ... passes. */
#define SLEEPER_TRIES_MAX 5

static __always_inline bool sleeps_with_truncated_stack(struct task_struct *task,
							struct thread *thread)
{
	return thread->wait.weight && thread->time.left_as == THREAD_BLOCKED && !task->on_cpu &&
	       is_asleep(task) && site_of_wait(&thread->wait)->cache.is_truncated;
}

static __always_inline void schedule_pass(__u32 number)
{
	if (!next_pass || number < next_pass)
		next_pass = number;
}

/* ---- capturing ---------------------------------------------------------------------------------- */

/* From the iterator's own task: needs no kfunc. */
static __always_inline void read_stack(struct sleeper *sleeper, struct task_struct *task, __u64 sp)
{
	__u64 page = sp & ~(__u64)(PAGE_BYTES - 1);
	__u32 count = 0;

#pragma unroll
	for (__u32 i = 0; i < SLEEPER_PAGES; i++) {
		if (count == i &&
		    !bpf_copy_from_user_task(sleeper->stack + i * PAGE_BYTES, PAGE_BYTES,
					     (const void *)(page + i * PAGE_BYTES), task, 0))
			count = i + 1;
	}
	sleeper->stack_start = page;
	sleeper->stack_bytes = count * PAGE_BYTES;
}

static __always_inline void key_of_sleeper(struct task_struct *task, struct count_key *key)
{
	struct task_struct *leader = task->group_leader;

	key->process.pid = task->tgid;
	key->process.exec_id = leader->self_exec_id;
	key->process.start_ns = leader->start_boottime;
}

/* Leaves the stack in sleeper->key. Returns whether it is complete, and the agent has it. */
static __always_inline bool capture_sleeper(struct sleeper *sleeper, struct task_struct *task)
{
	struct unwind *unwind = &sleeper->work.unwind;
	bool is_64_bit;

	key_of_sleeper(task, &sleeper->key);
	find_unwind_process(unwind, &sleeper->key.process);
	unwind->thread_pointer = thread_pointer_of(task);
	note_pending_returns(unwind, task);
	is_64_bit = registers_of_user(unwind, task);
	reading_tid = task->pid;
	read_stack(sleeper, task, unwind->registers[REGISTER_SP]);
	unwind_user_stack(&sleeper->work, is_64_bit);
	record_user_stack(&sleeper->work, bpf_ktime_get_ns(), task->group_leader->comm,
			  &sleeper->key);
	return (unwind->end == STACK_END_COMPLETE || unwind->end == STACK_END_DEPTH) &&
	       stack_is_sent(&sleeper->key.user);
}

/* Gives the thread's wait site the stack, if the thread has slept all the while. */
static __always_inline void store_sleeper(struct task_struct *task, struct thread *thread,
					  const struct count_key *key, __u64 since_ns,
					  bool is_whole)
{
	struct wait_site *site;

	if (!wait_lock(&thread->wait))
		return;
	if (*(volatile __u64 *)&thread->time.since_ns == since_ns &&
	    sleeps_with_truncated_stack(task, thread)) {
		site = site_of_wait(&thread->wait);
		wait_flush(site);
		stack_cache_clear(&site->cache);
		site->cache.is_truncated = !is_whole;
		wait_note_site(&thread->wait, thread->wait.call);
		site->key.user = key->user;
		site->key.user_leaf = key->user_leaf;
		count(is_whole ? COUNTER_SLEEPERS_UNWOUND : COUNTER_SLEEPERS_TRUNCATED);
	}
	wait_unlock(&thread->wait);
}

static __always_inline void unwind_sleeper(struct task_struct *task, struct thread *thread)
{
	__u64 since_ns = *(volatile __u64 *)&thread->time.since_ns;
	struct thread_wait *wait = &thread->wait;
	struct sleeper *sleeper;
	__u32 zero = 0;
	bool is_whole;

	sleeper = bpf_map_lookup_elem(&sleepers, &zero);
	if (!sleeper)
		return;
	is_whole = capture_sleeper(sleeper, task);
	store_sleeper(task, thread, &sleeper->key, since_ns, is_whole);
	if (is_whole) {
		wait->tries = 0;
		return;
	}
	if (wait->tries < SLEEPER_TRIES_MAX)
		wait->tries++;
	wait->due_in_pass = pass + (1U << (wait->tries & 7));
	schedule_pass(wait->due_in_pass);
}

SEC("iter.s/task")
int unwind_sleepers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *thread;

	if (!task || task->exit_state || task->flags & PF_KTHREAD)
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || !sleeps_with_truncated_stack(task, thread))
		return 0;
	if (thread->wait.due_in_pass > pass)
		schedule_pass(thread->wait.due_in_pass);
	else if (bpf_ktime_get_ns() > pass_end_ns)
		schedule_pass(pass + 1);
	else
		unwind_sleeper(task, thread);
	return 0;
}
