/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What is kept of each thread of the machine: its time, its waits, and what is to be known of a wait
// when somebody ends it. Shared by the programs of context switches and of wake-ups.
#pragma once

#include "bpf/switch/thread_time.h"
#include "bpf/switch/wait_sites.bpf.h"

/* An interval in which a thread was blocked. */
struct blocked_time {
	__u64 from_ns;
	__u64 to_ns;
	__u64 ns; // blocked in it, times the weight
	__u64 weight;
	__u64 exec_ns; // CPU time that the thread had had when the last wait began
};

/*
 * The present wait, for who ends it. A switch writes it before anybody can wake the thread, the sweep
 * and a waker while they have the lock of its waits.
 */
struct thread_wake {
	__u64 asleep_ns; // blocked since then, at wait.place; 0: it is not, or somebody has woken it
	__u64 charged_ns; // of that wait until the last sweep, times its weight
	// Waits of one place that ended by a timer, together: kept until it is known who ends the last of
	// them. ns 0: there are none.
	struct blocked_time timed_out;
	__u64 timed_out_site;           // wake_site() of them
	struct stack_hash timed_out_by; // the joined stack of the last one
};

/* What is known of a thread. */
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

/* For a thread that sleeps no time passes but its wait; a queued one is better left alone. */
static __always_inline bool is_asleep(struct task_struct *task)
{
	if (!task->on_rq)
		return true;
	return bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed;
}

/* Volatile, for else the compiler leaves out what the verifier wants to see. */
static __always_inline struct wait_site *site_of_wait(struct thread_wait *wait)
{
	return &wait->sites[*(volatile __u32 *)&wait->site & (WAIT_SITES - 1)];
}
