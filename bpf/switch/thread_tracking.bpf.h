/* SPDX-License-Identifier: GPL-2.0-only */
// Which threads are profiled, which of them get stacks, and where a thread's state begins.
#pragma once

#include "bpf/maps.bpf.h"
#include "bpf/switch/thread.bpf.h"

/* Processes, by tgid, that get no off-CPU stacks: the agent sheds load here. */
#define STACKLESS_MAX 1024

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STACKLESS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} stackless SEC(".maps");

/* Spares a lookup at each switch. */
bool any_stackless = false;

static __always_inline bool is_kernel_thread(struct task_struct *task)
{
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER);
}

static __always_inline bool is_stackless(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return any_stackless && bpf_map_lookup_elem(&stackless, &pid);
}

static __always_inline bool has_user_stack(struct task_struct *task)
{
	return !is_stackless(task) && task->mm && !is_kernel_thread(task);
}

/* When tracking began. Set by the agent. */
__u64 tracking_since_ns = 0;

/* Run-queue time of @task so far, in ns; 0 where the scheduler keeps no such count. */
static __always_inline __u64 run_delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

static __always_inline bool is_profiled(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return pid && (!only_targets || bpf_map_lookup_elem(&target_pids, &pid));
}

static __always_inline void track_thread(struct task_struct *task, __u64 since_ns, __u64 delay_ns)
{
	struct thread *thread =
		bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		count(COUNTER_THREADS_DROPPED);
		return;
	}
	if (thread->time.since_ns)
		return;
#pragma unroll
	for (__u32 i = 0; i < WAIT_GROUPS; i++)
		thread->wait.mean_ns[i] = WAIT_FIRST_MEAN_NS;
	thread->time.delay_ns = delay_ns;
	thread->time.exec_ns = since_ns == task->start_time ? 0 : task->se.sum_exec_runtime;
	thread->time.left_as = THREAD_BLOCKED;
	thread->time.slot = slot_at(since_ns);
	thread->time.since_ns = since_ns;
}

/* Threads that started after tracking began are charged from their start. */
static __always_inline void track_late(struct task_struct *task)
{
	if (task->start_time > tracking_since_ns)
		track_thread(task, task->start_time, 0);
	else
		track_thread(task, bpf_ktime_get_ns(), run_delay_of(task));
}

static __always_inline void untrack_thread(struct thread *thread)
{
	thread->time.since_ns = 0;
	thread->time.swept_compared_ns = thread->time.swept_ns[THREAD_RUNNING];
	thread->wait.weight = 0;
	thread->wake.asleep_ns = 0;
}
