/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Which waits get a stack when there are more than can be afforded: the longer one is likely to be,
// the likelier. How likely is fixed before the wait is known, and a wait that is chosen stands for
// one over its probability: sums are right on average, whatever the waits are.
//
// Before that, time is told less finely: waits of one place are added up over more slots. That loses
// no wait, and counts are most of what waits cost whose stack is remembered.
#pragma once

#include <linux/types.h>

/* How often the means are looked at. */
#define BUDGET_TICK_NS 10000000ULL
/*
 * Units a CPU has for each tick: 0.5 % of the CPU at most. To unwind takes as many as the time it took. A
 * count takes two: no more than 16384 in 5 s, and they are drained before the count maps are full.
 */
#define BUDGET_UNITS     64
#define BUDGET_UNIT_NS   750
#define BUDGET_COUNT     2
#define BUDGET_SPENT_MAX 60

/* Beyond that not even the end of the tick is waited for. */
#define BUDGET_STORM_UNITS (4 * BUDGET_UNITS)
/* More than that in a tick is a storm's beginning, and says nothing of the next ticks. */
#define BUDGET_TICK_UNITS_MAX (8 * BUDGET_UNITS)

/* Sums are of so many of the last ticks: waits come in bursts. */
#define BUDGET_MEAN_SHIFT 2
#define BUDGET_MEAN_UNITS (BUDGET_UNITS << BUDGET_MEAN_SHIFT)

/* The least likely wait is chosen once in so many times, as a power of two. */
#define BUDGET_SHIFT_MAX   14
#define BUDGET_QUANTUM_MIN 1024         // ns: half of a fast switch
#define BUDGET_QUANTUM_MAX (1ULL << 33) // ns: all waits are chosen as seldom as can be

/* Slots that the waits of a place are added up over, as a power of two: 8 of 20 ms. */
#define BUDGET_SPAN_SHIFT_MAX 3
/* Ticks between two changes of it: counts show an effect when the longest span is over. */
#define BUDGET_SPAN_TICKS 16

struct unwind_budget {
	__u64 tick_end_ns;
	__u64 quantum_ns;  // a wait that is likely to be as long is chosen for certain; 0: all are
	__u32 used;        // units of this tick
	__u32 counted;     // of which were counts
	__u32 recent_used; // of the last ticks, the older the less
	__u32 recent_counted;
	__u32 grown; // how often the quantum was doubled in this tick
	__u32 span_shift;
	__u32 span_ticks; // since it was looked at
	__u32 pad;
};

static inline __attribute__((always_inline)) void budget_grow(struct unwind_budget *budget,
							      __u64 by_ns)
{
	budget->quantum_ns += by_ns;
	if (budget->quantum_ns < BUDGET_QUANTUM_MIN)
		budget->quantum_ns = BUDGET_QUANTUM_MIN;
	if (budget->quantum_ns > BUDGET_QUANTUM_MAX)
		budget->quantum_ns = BUDGET_QUANTUM_MAX;
}

static inline __attribute__((always_inline)) void budget_fit_quantum(struct unwind_budget *budget)
{
	__u32 recent = budget->recent_used;

	if (budget->grown)
		return;
	if (recent > 2 * BUDGET_MEAN_UNITS)
		budget_grow(budget, budget->quantum_ns);
	else if (recent > BUDGET_MEAN_UNITS)
		budget_grow(budget, budget->quantum_ns / 8);
	else if (recent < BUDGET_MEAN_UNITS / 4)
		budget->quantum_ns -= budget->quantum_ns / 4;
	else if (recent < BUDGET_MEAN_UNITS * 3 / 4)
		budget->quantum_ns -= budget->quantum_ns / 8;
	if (budget->quantum_ns < BUDGET_QUANTUM_MIN)
		budget->quantum_ns = 0;
}

static inline __attribute__((always_inline)) void budget_fit_span(struct unwind_budget *budget)
{
	if (++budget->span_ticks < BUDGET_SPAN_TICKS)
		return;
	budget->span_ticks = 0;
	if (budget->recent_counted > BUDGET_MEAN_UNITS / 2) {
		if (budget->span_shift < BUDGET_SPAN_SHIFT_MAX)
			budget->span_shift++;
	} else if (budget->recent_counted < BUDGET_MEAN_UNITS / 8 && budget->span_shift) {
		budget->span_shift--;
	}
}

/* Ticks in which nobody asked have used nothing. */
static inline __attribute__((always_inline)) void budget_idle(struct unwind_budget *budget,
							      __u64 ticks)
{
	__u32 halves =
		ticks >> (BUDGET_MEAN_SHIFT + 1) < 63 ? ticks >> (BUDGET_MEAN_SHIFT + 1) : 63;

	budget->quantum_ns >>= halves;
	budget->recent_used >>= halves < 31 ? halves : 31;
	budget->recent_counted >>= halves < 31 ? halves : 31;
	if (ticks > BUDGET_SPAN_TICKS)
		budget->span_shift = 0;
}

static inline __attribute__((always_inline)) void budget_add_recent(__u32 *recent, __u32 units)
{
	if (units > BUDGET_TICK_UNITS_MAX)
		units = BUDGET_TICK_UNITS_MAX;
	*recent += units - (*recent >> BUDGET_MEAN_SHIFT);
}

static inline __attribute__((always_inline)) void budget_at(struct unwind_budget *budget, __u64 now)
{
	if (now < budget->tick_end_ns)
		return;
	budget_add_recent(&budget->recent_used, budget->used);
	budget_add_recent(&budget->recent_counted, budget->counted);
	budget_fit_quantum(budget);
	budget_fit_span(budget);
	budget_idle(budget, (now - budget->tick_end_ns) / BUDGET_TICK_NS);
	budget->used = 0;
	budget->counted = 0;
	budget->grown = 0;
	budget->tick_end_ns = now + BUDGET_TICK_NS;
}

static inline __attribute__((always_inline)) void budget_use(struct unwind_budget *budget,
							     __u32 units)
{
	budget->used += units;
	// In a storm at once, at four, eight, sixteen times what a tick has.
	if (budget->used >> budget->grown < BUDGET_STORM_UNITS || budget->grown > BUDGET_SHIFT_MAX)
		return;
	budget->grown++;
	budget_grow(budget, budget->quantum_ns);
}

/*
 * To take a stack, or to see that it is the same, took so long: of Python's frames up to 45 us, where a
 * request has emptied the caches. More is somebody else's: a hypervisor's, or of an interrupt.
 */
static inline __attribute__((always_inline)) void budget_spend_ns(struct unwind_budget *budget,
								  __u64 ns)
{
	__u64 units = (ns + BUDGET_UNIT_NS / 2) / BUDGET_UNIT_NS;

	budget_use(budget, units < BUDGET_SPENT_MAX ? units : BUDGET_SPENT_MAX);
}

/* So many counts were made. */
static inline __attribute__((always_inline)) void budget_count(struct unwind_budget *budget,
							       __u32 counts)
{
	budget->counted += counts * BUDGET_COUNT;
	budget_use(budget, counts * BUDGET_COUNT);
}

/*
 * Are even the counts of remembered stacks too many, told as coarsely as can be? Else waits that need
 * no unwinding are all chosen.
 */
static inline __attribute__((always_inline)) _Bool budget_is_for_all(
	const struct unwind_budget *budget)
{
	return budget->span_shift == BUDGET_SPAN_SHIFT_MAX &&
	       budget->recent_counted > BUDGET_MEAN_UNITS * 3 / 4;
}

/* A wait that is likely to take @expected_ns is chosen once in 1 << this many times. */
static inline __attribute__((always_inline)) __u32 budget_shift(const struct unwind_budget *budget,
								__u64 expected_ns, __u32 least)
{
	__u32 shift = least;

	for (__u32 i = 0; i < BUDGET_SHIFT_MAX; i++)
		shift += (expected_ns << i) < budget->quantum_ns;
	return shift < BUDGET_SHIFT_MAX ? shift : BUDGET_SHIFT_MAX;
}
