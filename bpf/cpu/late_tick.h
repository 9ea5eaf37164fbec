/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Ticks that come late: what of their time was the running task's? Pure.
//
// Hypervisors delay the timer of an idle CPU until something wakes it, or drop its ticks: the tick that was due while it was
// idle then hits the task that has just begun, or the next one comes many periods after the last. Ticks lie on a grid, one period
// apart, so a task is due one period for each point of the grid while it had the CPU.
#pragma once

#include "base/time_span.h"

#define TICK_EARLY_SHARE \
	16 // of a period: so much before its point of the grid a tick may come, by the last one's delay

/**
 * The weight of a tick @elapsed_ns after the last one, whose task has had the CPU for @ran_ns: the points of the grid since it
 * began. What is left of a period belongs to the next tick, as always.
 */
static inline __attribute__((always_inline)) unsigned long long late_tick_weight(
	unsigned long long elapsed_ns, unsigned long long period_ns, unsigned long long ran_ns)
{
	unsigned long long early_ns = period_ns / TICK_EARLY_SHARE;
	unsigned long long began_ns = ns_between(ran_ns, elapsed_ns);

	return ((elapsed_ns + early_ns) / period_ns - (began_ns + early_ns) / period_ns) *
	       period_ns;
}

/* NTP may let the clocks drift apart by 0.5 ms in each second. */
#define CLOCK_LAG_WINDOW_NS 2000000000ULL

/*
 * The run queue's clock is read now and then, on events of the scheduler; the monotonic clock, of another zero, can be read now.
 * Their smallest difference is of a moment when the first one had just been read.
 */
struct clock_lag {
	unsigned long long since_ns;     // begin of the window; 0: there was none yet
	unsigned long long least;        // difference in it
	unsigned long long least_before; // in the window before, or in the first
};

/** How long ago the run queue's clock was @clock_ns, at @now_ns of the monotonic clock; too short until that is known. */
static inline __attribute__((always_inline)) unsigned long long clock_lag_ns(
	struct clock_lag *lag, unsigned long long now_ns, unsigned long long clock_ns)
{
	// Either zero may be the earlier one: differences wrap, and are compared by their distance.
	unsigned long long difference = now_ns - clock_ns, least;

	if (!lag->since_ns || now_ns - lag->since_ns > CLOCK_LAG_WINDOW_NS) {
		lag->least_before = lag->since_ns ? lag->least : difference;
		lag->since_ns = now_ns;
		lag->least = difference;
	}
	if ((long long)(difference - lag->least) < 0)
		lag->least = difference;
	least = lag->least;
	if ((long long)(lag->least_before - least) < 0)
		least = lag->least_before;
	return difference - least;
}
