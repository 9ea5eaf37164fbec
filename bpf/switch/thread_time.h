/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Exact times of a thread. Its life is a chain of intervals: it loses its CPU, is blocked, waits in a run
// queue, runs, and loses the CPU again. An interval is charged when it is over; two parts are measured and
// the third is the rest, so the three always add up to elapsed time.
#pragma once

#include <linux/types.h>

#include "base/time_span.h"

enum thread_state {
	THREAD_RUNNING,
	THREAD_RUN_QUEUE, // runnable without a CPU
	THREAD_BLOCKED,
	THREAD_STATES,
};

/* Monotonic times. */
struct thread_time {
	__u64 since_ns; // charged up to here: whoever moves it on charges what lies between
	__u64 delay_ns; // sched_info.run_delay charged so far
	__u32 left_as;  // how it lost its CPU last: THREAD_RUN_QUEUE or THREAD_BLOCKED
	__u32 pad;
	__u64 exec_ns; // sched_entity.sum_exec_runtime charged so far
	// Part of swept_ns[THREAD_RUNNING] compared with that; smaller: more was charged.
	__u64 swept_compared_ns;
	__u64 slot; // totals are reported up to its start
	// By switches and by sweeps apart: each is written by one CPU at a time.
	__u64 switched_ns[THREAD_STATES];
	__u64 swept_ns[THREAD_STATES];
	__u64 reported_ns[THREAD_STATES]; // of the sum of both
};

/* An interval, or part of one. */
struct thread_interval {
	__u64 ns[THREAD_STATES];
};

/*
 * Splits the time from @since_ns to @now_ns of a thread that runs since @running_since_ns (now, if it does
 * not) and lost its CPU as @left_as before. @delay_ns: its run-queue time by the scheduler.
 */
static inline __attribute__((always_inline)) struct thread_interval thread_interval_of(
	__u64 since_ns, __u64 now_ns, __u64 running_since_ns, __u64 delay_ns, __u32 left_as)
{
	__u64 elapsed_ns = ns_between(since_ns, now_ns);
	__u64 running_ns = ns_between(running_since_ns, now_ns);
	struct thread_interval interval;

	if (running_ns > elapsed_ns) // charged in part
		running_ns = elapsed_ns;
	elapsed_ns -= running_ns;
	// A preempted thread is runnable all the time. For a blocked one the scheduler's clock may be some
	// nanoseconds ahead of ours.
	if (left_as == THREAD_RUN_QUEUE || delay_ns > elapsed_ns)
		delay_ns = elapsed_ns;
	interval.ns[THREAD_RUNNING] = running_ns;
	interval.ns[THREAD_RUN_QUEUE] = delay_ns;
	interval.ns[THREAD_BLOCKED] = elapsed_ns - delay_ns;
	return interval;
}

/*
 * Corrects running time to the kernel's own count, @exec_ns since the last correction; sweeps have charged
 * @ahead_ns of it. A hypervisor that takes the CPU makes our time longer: the thread was waiting for a CPU.
 * A kernel clock that starts at the wake-up makes it shorter. Returns the excess that this interval could
 * not absorb.
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
 * Returns what was charged in @state and not reported yet, and marks it reported. At a thread's exit a sweep
 * may come, too: each reports what the other has not.
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
