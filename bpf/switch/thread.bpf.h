/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What is kept of each thread: its times, its wait sites and its present sleep. Shared by the programs of
// context switches and of wake-ups.
#pragma once

#include "bpf/switch/thread_time.h"
#include "bpf/switch/wait_sites.bpf.h"

/* Time blocked, for a waker. */
struct blocked_time {
	__u64 from_ns;
	__u64 to_ns;
	__u64 ns; // weighted
	__u64 weight;
	__u64 exec_ns; // CPU time of the thread before this sleep
};

/*
 * The present sleep, for its waker. A switch writes it before the thread can be woken; a sweep and a waker
 * write it under the lock.
 */
struct thread_wake {
	__u64 asleep_ns;  // asleep since, at wait.site; 0: awake
	__u64 charged_ns; // charged to it by sweeps so far, weighted
	// Sleeps at one site that a timer ended, added up until a waker ends the last one. ns 0: none.
	struct blocked_time timed_out;
	__u64 timed_out_site;           // wake_site() of them
	struct stack_hash timed_out_by; // joined stack of the last one
};

struct thread {
	struct thread_time time;
	struct thread_wait wait;
	struct thread_wake wake;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* A sleeping thread's time does not change. One that is dequeued late (sched_delayed) sleeps, too. */
static __always_inline bool is_asleep(struct task_struct *task)
{
	if (!task->on_rq)
		return true;
	return bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed;
}

/* Volatile: the compiler would drop the bound that the verifier needs. */
static __always_inline struct wait_site *site_of_wait(struct thread_wait *wait)
{
	return &wait->sites[*(volatile __u32 *)&wait->site & (WAIT_SITES - 1)];
}

/* The stack is known now; the thread may be woken. */
static __always_inline void begin_sleep(struct thread *thread, __u64 now)
{
	thread->wake.charged_ns = 0;
	thread->wake.asleep_ns = thread->time.left_as == THREAD_BLOCKED ? now : 0;
}
