/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Where a thread's time goes, exactly. A thread's life is cut into spells: it loses its CPU, is
// blocked, waits for a CPU, runs, and loses it again. A spell is accounted when it is over, so all of
// it is known; what is left when two of its parts are measured is the third. So the three are
// elapsed time, whatever happened.
#pragma once

#include <linux/types.h>

#include "base/time_span.h"

enum thread_state {
	THREAD_RUNNING,
	THREAD_RUN_QUEUE, // runnable without a CPU
	THREAD_BLOCKED,
	THREAD_STATES,
};

/* Kept for each thread. Times are of the monotonic clock. */
struct thread_time {
	__u64 since_ns; // accounted up to here: who moves it on accounts what lies between
	__u64 delay_ns; // of sched_info.run_delay, accounted
	__u32 left_as;  // THREAD_RUN_QUEUE or _BLOCKED: how it lost its CPU the last time
	__u32 pad;
	__u64 exec_ns; // of sched_entity.sum_exec_runtime, accounted
	// Up to here swept_ns[THREAD_RUNNING] has been compared with that; smaller: more was accounted.
	__u64 swept_compared_ns;
	__u64 slot; // the totals below are told up to where it begins
	// Of its switches, and of the agent's sweeps: each is written by one CPU at a time.
	__u64 switched_ns[THREAD_STATES];
	__u64 swept_ns[THREAD_STATES];
	__u64 reported_ns[THREAD_STATES]; // of the sum of both
};

/* Of one interval, or a part of it. */
struct thread_interval {
	__u64 ns[THREAD_STATES];
};

/*
 * What a thread did from @since_ns until @now_ns, if it has a CPU since @running_since_ns and had lost
 * it @left_as before that. @delay_ns is what the scheduler counted it to be runnable meanwhile.
 */
static inline __attribute__((always_inline)) struct thread_interval thread_interval_of(
	__u64 since_ns, __u64 now_ns, __u64 running_since_ns, __u64 delay_ns, __u32 left_as)
{
	__u64 elapsed_ns = ns_between(since_ns, now_ns);
	__u64 running_ns = ns_between(running_since_ns, now_ns);
	struct thread_interval interval;

	if (running_ns > elapsed_ns) // accounted before, in part
		running_ns = elapsed_ns;
	elapsed_ns -= running_ns;
	// Who was preempted waits all the time. Of who blocked, the scheduler's clock may be some
	// nanoseconds ahead of ours.
	if (left_as == THREAD_RUN_QUEUE || delay_ns > elapsed_ns)
		delay_ns = elapsed_ns;
	interval.ns[THREAD_RUNNING] = running_ns;
	interval.ns[THREAD_RUN_QUEUE] = delay_ns;
	interval.ns[THREAD_BLOCKED] = elapsed_ns - delay_ns;
	return interval;
}

/*
 * Make the thread have run what the kernel says, @exec_ns since it was asked the last time; what was
 * accounted as running by sweeps since then is @ahead_ns. A spell's time on a CPU is longer where a
 * hypervisor took the CPU away: the thread waited for it. It is shorter where the kernel's clock began
 * at the wake-up. Returns what is accounted too much and could not be taken from this interval.
 */
static inline __attribute__((always_inline)) __u64 thread_interval_settle(
	struct thread_interval *interval, __u64 ahead_ns, __u64 exec_ns)
{
	__u64 taken_ns = ns_between(exec_ns, interval->ns[THREAD_RUNNING] + ahead_ns);
	__u64 more_ns = ns_between(interval->ns[THREAD_RUNNING] + ahead_ns, exec_ns);
	__u64 left_ns = ns_between(interval->ns[THREAD_RUNNING], taken_ns);
	__u64 blocked_ns = interval->ns[THREAD_BLOCKED],
	      waiting_ns = interval->ns[THREAD_RUN_QUEUE];

	taken_ns -= left_ns;
	blocked_ns = more_ns < blocked_ns ? more_ns : blocked_ns;
	more_ns -= blocked_ns;
	waiting_ns = more_ns < waiting_ns ? more_ns : waiting_ns;
	interval->ns[THREAD_RUNNING] += blocked_ns + waiting_ns - taken_ns;
	interval->ns[THREAD_RUN_QUEUE] += taken_ns - waiting_ns;
	interval->ns[THREAD_BLOCKED] -= blocked_ns;
	return left_ns;
}

/*
 * What was accounted in @state and has not been told yet; it is, afterwards. A sweep may meet a thread at its
 * end: who comes first tells, the other one tells what came since.
 */
static inline __attribute__((always_inline)) __u64 thread_time_report(struct thread_time *time,
								      __u32 state)
{
	for (__u32 tries = 0; tries < 2; tries++) {
		__u64 reported_ns = *(volatile __u64 *)&time->reported_ns[state];
		__u64 sum_ns = *(volatile __u64 *)&time->switched_ns[state] +
			       *(volatile __u64 *)&time->swept_ns[state];

		if (sum_ns <= reported_ns)
			return 0;
		if (__sync_bool_compare_and_swap(&time->reported_ns[state], reported_ns, sum_ns))
			return sum_ns - reported_ns;
	}
	return 0;
}
