/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Which off-CPU intervals get a stack when there are too many to unwind all. The probability grows with
// the expected length and is fixed before the interval begins; a kept one has weight 1 / probability, so
// sums are unbiased.
//
// Before intervals are sampled out, time gets coarser: counts of one wait site are added up over more
// slots. That drops nothing, and counts are most of the cost of cached stacks.
#pragma once

#include <linux/types.h>

/* How often usage is averaged. */
#define BUDGET_TICK_NS 10000000ULL
/*
 * Budget of a CPU for each tick, in units: 0.5 % of the CPU; beside costly cache hits BUDGET_MEAN_CAPTURES more. Unwinding
 * uses its time, a count two units: at most 16384 counts in 5 s, and the agent drains counts before their map is full.
 */
#define BUDGET_UNITS     64
#define BUDGET_UNIT_NS   750
#define BUDGET_COUNT     2
#define BUDGET_SPENT_MAX 60

/* More than that: react before the end of the tick. */
#define BUDGET_STORM_UNITS (4 * BUDGET_UNITS)
/* More than that is the start of a storm, and no estimate of the next ticks. */
#define BUDGET_TICK_UNITS_MAX (8 * BUDGET_UNITS)

/* Averages are over so many ticks: off-CPU intervals come in bursts. */
#define BUDGET_MEAN_SHIFT 2
#define BUDGET_MEAN_UNITS (BUDGET_UNITS << BUDGET_MEAN_SHIFT)
/*
 * So much is for captures alone, 0.125 % of the CPU, however much cache hits use: sampling out captures would not make
 * those cheaper, and long waits, of which there are few, would have no stacks.
 */
#define BUDGET_MEAN_CAPTURES (BUDGET_MEAN_UNITS / 4)

/*
 * Up to so many switches in a tick, 20,000 a second, cache hits are kept even if they are most of the cost: at
 * 165 ns each they are 0.33 % of the CPU.
 */
#define BUDGET_HITS      200
#define BUDGET_MEAN_HITS (BUDGET_HITS << BUDGET_MEAN_SHIFT)

/*
 * The governor's steps are about intervals of up to 1 << this, a millisecond: longer ones are fewer, and each has more of
 * the time, so they keep the probability that makes as much time of one capture.
 */
#define BUDGET_SHED_NS_BITS 20

/* The lowest probability, as a power of two. */
#define BUDGET_SHIFT_MAX   14
#define BUDGET_QUANTUM_MIN 1024         // ns: half of a fast switch
#define BUDGET_QUANTUM_MAX (1ULL << 33) // ns: all intervals have the lowest probability

/* Slots that a wait site's counts are added up over, as a power of two: 8 of 20 ms, 160 ms. */
#define BUDGET_SPAN_SHIFT_MAX 3
/*
 * 1.3 s: only up to BUDGET_HITS, where cache hits are not to be sampled out, and only while counts use three quarters of
 * the budget at 160 ms: those of some 400 busy wait sites of a CPU do. Above that rate hits are sampled out instead.
 */
#define BUDGET_SPAN_SHIFT_LAST 6
/* Ticks between two changes of the span, or two spans: it has an effect on counts once those are over. */
#define BUDGET_SPAN_TICKS 16

struct unwind_budget {
	__u64 tick_end_ns;
	__u64 quantum_ns;  // intervals expected to last this long are all kept; 0: every one is
	__u32 used;        // units used in this tick
	__u32 counted;     // of them for counts
	__u32 recent_used; // decayed sum over the last ticks
	__u32 recent_counted;
	__u32 grown; // times that the quantum was doubled in this tick
	__u32 span_shift;
	__u32 span_ticks; // ticks since the span was last looked at
	__u32 compared;   // units used to compare Python frames with cached ones
	__u32 recent_compared;
	__u32 switches;
	__u32 recent_switches;
	__u8 samples_hits;
	__u8 samples_compares;
	__u16 pad;
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

/* Used by cache hits that are all kept. */
static inline __attribute__((always_inline)) __u32 budget_used_by_hits(
	const struct unwind_budget *budget)
{
	__u32 hits = (budget->samples_compares ? 0 : budget->recent_compared) +
		     (budget->samples_hits ? 0 : budget->recent_counted);

	return hits < budget->recent_used ? hits : budget->recent_used;
}

static inline __attribute__((always_inline)) void budget_fit_quantum(struct unwind_budget *budget)
{
	__u32 hits = budget_used_by_hits(budget), recent = budget->recent_used - hits;
	__u32 room = BUDGET_MEAN_CAPTURES;

	if (budget->grown)
		return;
	if (hits < BUDGET_MEAN_UNITS - BUDGET_MEAN_CAPTURES)
		room = BUDGET_MEAN_UNITS - hits;
	if (recent > 2 * room)
		budget_grow(budget, budget->quantum_ns);
	else if (recent > room)
		budget_grow(budget, budget->quantum_ns / 8);
	else if (recent < room / 4)
		budget->quantum_ns -= budget->quantum_ns / 4;
	else if (recent < room * 3 / 4)
		budget->quantum_ns -= budget->quantum_ns / 8;
	if (budget->quantum_ns < BUDGET_QUANTUM_MIN)
		budget->quantum_ns = 0;
}

/* The longest span at this rate of switches. */
static inline __attribute__((always_inline)) __u32 budget_last_span(
	const struct unwind_budget *budget)
{
	return budget->recent_switches > BUDGET_MEAN_HITS ? BUDGET_SPAN_SHIFT_MAX
							  : BUDGET_SPAN_SHIFT_LAST;
}

/* A longer span is taken for half of the budget; one past BUDGET_SPAN_SHIFT_MAX only for three quarters, and soon given back. */
static inline __attribute__((always_inline)) void budget_fit_span(struct unwind_budget *budget)
{
	__u32 last = budget_last_span(budget);
	__u32 most = BUDGET_MEAN_UNITS / 2, least = BUDGET_MEAN_UNITS / 8;

	if (++budget->span_ticks < BUDGET_SPAN_TICKS ||
	    budget->span_ticks < 4U << budget->span_shift)
		return;
	budget->span_ticks = 0;
	if (budget->span_shift >= BUDGET_SPAN_SHIFT_MAX)
		most = BUDGET_MEAN_UNITS * 3 / 4;
	if (budget->span_shift > BUDGET_SPAN_SHIFT_MAX)
		least = BUDGET_MEAN_UNITS / 4;
	if (budget->recent_counted > most && budget->span_shift < last)
		budget->span_shift++;
	else if (budget->span_shift &&
		 (budget->span_shift > last || budget->recent_counted < least))
		budget->span_shift--;
}

/* Ticks without a switch have used nothing. */
static inline __attribute__((always_inline)) void budget_idle(struct unwind_budget *budget,
							      __u64 ticks)
{
	__u32 halves =
		ticks >> (BUDGET_MEAN_SHIFT + 1) < 63 ? ticks >> (BUDGET_MEAN_SHIFT + 1) : 63;

	budget->quantum_ns >>= halves;
	budget->recent_used >>= halves < 31 ? halves : 31;
	budget->recent_counted >>= halves < 31 ? halves : 31;
	budget->recent_compared >>= halves < 31 ? halves : 31;
	budget->recent_switches >>= halves < 31 ? halves : 31;
	if (ticks > BUDGET_SPAN_TICKS)
		budget->span_shift = 0;
}

static inline __attribute__((always_inline)) __u32 budget_cap(__u32 units)
{
	return units < BUDGET_TICK_UNITS_MAX ? units : BUDGET_TICK_UNITS_MAX;
}

static inline __attribute__((always_inline)) void budget_add_recent(__u32 *recent, __u32 units)
{
	*recent += units - (*recent >> BUDGET_MEAN_SHIFT);
}

/*
 * True if counts of cached stacks alone are too many, even at the longest span. Else all cache hits are
 * kept. Both are found once a tick, for samples_hits and samples_compares.
 */
static inline __attribute__((always_inline)) _Bool budget_is_for_all(
	const struct unwind_budget *budget)
{
	__u32 most = budget->recent_switches > BUDGET_MEAN_HITS ? BUDGET_MEAN_UNITS * 3 / 4
								: BUDGET_MEAN_UNITS * 2;

	return budget->span_shift >= budget_last_span(budget) && budget->recent_counted > most;
}

/*
 * True if comparing Python frames alone is too much. Else they are compared at each switch of their threads, and
 * hits are kept.
 */
static inline __attribute__((always_inline)) _Bool budget_is_for_compares(
	const struct unwind_budget *budget)
{
	return budget->recent_compared > BUDGET_MEAN_UNITS * 3 / 4;
}

/* Not inlined: it is rare, and the verifier would follow each way through it at each switch. */
int budget_end_tick(struct unwind_budget *budget, __u64 now);
__attribute__((noinline)) int budget_end_tick(struct unwind_budget *budget, __u64 now)
{
	if (!budget)
		return 0;
	budget_add_recent(&budget->recent_used, budget_cap(budget->used));
	budget_add_recent(&budget->recent_counted, budget_cap(budget->counted));
	budget_add_recent(&budget->recent_compared, budget_cap(budget->compared));
	budget_add_recent(&budget->recent_switches, budget->switches);
	budget->samples_hits = budget_is_for_all(budget);
	budget->samples_compares = budget_is_for_compares(budget);
	budget_fit_quantum(budget);
	budget_fit_span(budget);
	budget_idle(budget, (now - budget->tick_end_ns) / BUDGET_TICK_NS);
	budget->used = 0;
	budget->counted = 0;
	budget->compared = 0;
	budget->switches = 0;
	budget->grown = 0;
	budget->tick_end_ns = now + BUDGET_TICK_NS;
	return 0;
}

/* At each switch. */
static inline __attribute__((always_inline)) void budget_at(struct unwind_budget *budget, __u64 now)
{
	budget->switches++;
	if (now >= budget->tick_end_ns)
		budget_end_tick(budget, now);
}

static inline __attribute__((always_inline)) void budget_use(struct unwind_budget *budget,
							     __u32 units)
{
	budget->used += units;
	// In a storm, at once: at 4, 8, 16 times the budget of a tick.
	if (budget->used >> budget->grown < BUDGET_STORM_UNITS || budget->grown > BUDGET_SHIFT_MAX)
		return;
	budget->grown++;
	budget_grow(budget, budget->quantum_ns);
}

/*
 * Time of a capture or of comparing with the cache: up to 45 us for Python frames with cold caches. More is
 * a hypervisor's or an interrupt's.
 */
static inline __attribute__((always_inline)) __u32 budget_spend_ns(struct unwind_budget *budget,
								   __u64 ns)
{
	__u64 units = (ns + BUDGET_UNIT_NS / 2) / BUDGET_UNIT_NS;

	units = units < BUDGET_SPENT_MAX ? units : BUDGET_SPENT_MAX;
	budget_use(budget, units);
	return units;
}

/* The same of comparing alone. */
static inline __attribute__((always_inline)) void budget_compare_ns(struct unwind_budget *budget,
								    __u64 ns)
{
	budget->compared += budget_spend_ns(budget, ns);
}

static inline __attribute__((always_inline)) void budget_count(struct unwind_budget *budget,
							       __u32 counts)
{
	budget->counted += counts * BUDGET_COUNT;
	budget_use(budget, counts * BUDGET_COUNT);
}

/*
 * While the governor asks for one interval in 1 << @step at most: of intervals expected to last @expected_ns one in
 * 1 << this. 0: unknown.
 */
static inline __attribute__((always_inline)) __u32 budget_shed_shift(__u32 step, __u64 expected_ns)
{
	// Without branches: the verifier would follow each number of bits.
	__u64 times = expected_ns >> BUDGET_SHED_NS_BITS;
	__u32 longer;

	times |= times >> 1;
	times |= times >> 2;
	times |= times >> 4;
	times |= times >> 8;
	longer = __builtin_popcountll(times >> 1); // the highest bit that is set
	return step > longer ? step - longer : 0;
}

/* An interval expected to last @expected_ns is kept once in 1 << this. */
static inline __attribute__((always_inline)) __u32 budget_shift(const struct unwind_budget *budget,
								__u64 expected_ns, __u32 least)
{
	__u32 shift = least;

	for (__u32 i = 0; i < BUDGET_SHIFT_MAX; i++)
		shift += (expected_ns << i) < budget->quantum_ns;
	return shift < BUDGET_SHIFT_MAX ? shift : BUDGET_SHIFT_MAX;
}
