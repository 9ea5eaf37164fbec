/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Which waits get a stack when there are more than can be afforded: the longer one is likely to be,
// the likelier. How likely is fixed before the wait is known, and a wait that is chosen stands for
// one over its probability: sums are right on average, whatever the waits are.
#pragma once

#include <linux/types.h>

/* How long a CPU's means last. Unwinding and counting a wait is a unit of them. */
#define BUDGET_PERIOD_NS 100000000ULL
/*
 * Units a CPU has for each period. A unit takes some 3 us: 0.5 % of the CPU at most, and no more than
 * 8192 counts in 5 s, which the count maps have room for.
 */
#define BUDGET_UNITS 160

/* The least likely wait is chosen once in so many times, as a power of two. */
#define BUDGET_SHIFT_MAX   14
#define BUDGET_QUANTUM_MIN 1024         // ns: half of a fast switch
#define BUDGET_QUANTUM_MAX (1ULL << 33) // ns: all waits are chosen as seldom as can be

struct unwind_budget {
	__u64 period_end_ns;
	__u64 quantum_ns; // a wait that is likely to be as long is chosen for certain; 0: all are
	__u32 used;       // of this period's units, since the quantum was last doubled
	__u32 grown;      // it was doubled in this period
};

static inline __attribute__((always_inline)) void budget_at(struct unwind_budget *budget, __u64 now)
{
	__u64 idle; // whole periods since, in which nobody asked

	if (now < budget->period_end_ns)
		return;
	// Back slowly: a quantum that fits is found from above.
	if (!budget->grown && budget->used < BUDGET_UNITS / 2)
		budget->quantum_ns -= budget->quantum_ns / 4;
	idle = (now - budget->period_end_ns) / BUDGET_PERIOD_NS;
	budget->quantum_ns >>= idle / 2 < 63 ? idle / 2 : 63;
	if (budget->quantum_ns < BUDGET_QUANTUM_MIN)
		budget->quantum_ns = 0;
	budget->used = 0;
	budget->grown = 0;
	budget->period_end_ns = now + BUDGET_PERIOD_NS;
}

static inline __attribute__((always_inline)) void budget_spend(struct unwind_budget *budget)
{
	if (++budget->used < BUDGET_UNITS)
		return;
	// At once, not at the end of the period: what comes until then would be without bound.
	budget->used = BUDGET_UNITS / 2;
	budget->grown = 1;
	if (budget->quantum_ns < BUDGET_QUANTUM_MIN)
		budget->quantum_ns = BUDGET_QUANTUM_MIN;
	else if (budget->quantum_ns < BUDGET_QUANTUM_MAX)
		budget->quantum_ns *= 2;
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
