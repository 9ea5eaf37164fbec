// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_verdict.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

/*
 * Starting thresholds, not tuned to any service. A GPU that is idle for less than IDLE_FULL is full; from IDLE_MIN on its idle
 * time needs a cause, which must explain most of it.
 */
#define IDLE_MIN         0.20
#define IDLE_FULL        0.05
#define INPUT_OF_IDLE    0.60
#define CPU_OF_IDLE      0.70
#define FEEDERS_MIN      0.8 // cores
#define LAUNCH_RATE_MIN  10000.0
#define LAUNCH_CALLS_MIN 0.40
#define LAUNCH_WAIT_MAX  0.10 // threads that wait for the GPU launch fast enough
#define COPY_IN_MIN      0.20
#define IMPLICIT_MIN     0.10
#define COPY_OUT_SMALL   4096.0 // a scalar's copy, not a result's
#define WAIT_MIN         0.60
#define SM_FULL          0.80
#define PIPES_FULL       0.50
#define DRAM_FULL        0.60
#define TENSOR_FEW       0.40
#define ALLOCATION_MIN   0.02
#define ALLOCATIONS_MIN  10.0 // a second
#define GROWTH_MIN       0.05 // an hour
#define LOCK_MIN         0.10
#define COLLECTIVE_MIN   0.15
#define LAG_MIN          0.20 // of a step
#define THROTTLED_MIN    0.10
#define OTHERS_MIN       0.20
#define DEMAND_WAIT      0.05 // below it waits for the GPU are negligible
#define DEMAND_CPU       0.20
#define PCIE_USE_MIN     0.50
/* By the rate alone, launching is as much of a thread's time as a launch of 5 us makes it. */
#define LAUNCH_SECONDS 5e-6

/* As for CPU services: collector/diagnose/verdict.c. */
#define AMBIGUOUS_SHARE     0.8
#define SURE_RANGE_NS       (30 * NS_PER_SECOND)
#define ALLOCATION_RANGE_NS (60 * NS_PER_SECOND) // a warm-up allocates more than that in a burst
#define SURE_TIMES          2.0
#define SURE_SHARE          0.75

// ---- one class at a time --------------------------------------------------------------------

// 0 if unknown: classes for which 0 would be wrong list the figure in .needs.
static double of(const struct gpu_figures *figures, enum gpu_figure figure)
{
	return gpu_figures_know(figures, figure) ? figures->values[figure] : 0;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static bool is_idle(const struct gpu_figures *figures)
{
	return of(figures, GPU_FIGURE_IDLE) >= IDLE_MIN;
}

static void judge_starved(const struct gpu_figures *figures, struct gpu_share *share)
{
	double idle = of(figures, GPU_FIGURE_IDLE), input = of(figures, GPU_FIGURE_INPUT);

	share->share = smaller(idle, input);
	share->reached = is_idle(figures) && input >= INPUT_OF_IDLE * idle &&
			 of(figures, GPU_FIGURE_FEEDERS) >= FEEDERS_MIN;
}

static void judge_cpu_bound(const struct gpu_figures *figures, struct gpu_share *share)
{
	double idle = of(figures, GPU_FIGURE_IDLE), cpu = of(figures, GPU_FIGURE_OWN_CPU);

	share->share = smaller(idle, cpu);
	share->reached = is_idle(figures) && cpu >= CPU_OF_IDLE * idle;
}

// A GPU that always has work is not slowed down by launching threads.
static bool is_kept_busy(const struct gpu_figures *figures)
{
	return gpu_figures_know(figures, GPU_FIGURE_IDLE) &&
	       of(figures, GPU_FIGURE_IDLE) < IDLE_FULL;
}

static void judge_launch_bound(const struct gpu_figures *figures, struct gpu_share *share)
{
	double rate = of(figures, GPU_FIGURE_LAUNCH_RATE);

	share->share =
		larger(of(figures, GPU_FIGURE_LAUNCH_CALLS), smaller(1, rate * LAUNCH_SECONDS));
	share->reached = !is_kept_busy(figures) && of(figures, GPU_FIGURE_WAIT) < LAUNCH_WAIT_MAX &&
			 (rate >= LAUNCH_RATE_MIN ||
			  of(figures, GPU_FIGURE_LAUNCH_CALLS) >= LAUNCH_CALLS_MIN);
}

static void judge_copy_bound(const struct gpu_figures *figures, struct gpu_share *share)
{
	bool link_is_full = of(figures, GPU_FIGURE_PCIE_USE) >= PCIE_USE_MIN;

	share->share = of(figures, GPU_FIGURE_COPY_IN);
	if (link_is_full)
		share->share = larger(share->share, COPY_IN_MIN);
	share->reached = !is_kept_busy(figures) && share->share >= COPY_IN_MIN;
}

// Large copies are results, not scalars: waiting for them is intended.
static void judge_implicit_sync(const struct gpu_figures *figures, struct gpu_share *share)
{
	share->share = of(figures, GPU_FIGURE_IMPLICIT);
	share->reached = share->share >= IMPLICIT_MIN &&
			 of(figures, GPU_FIGURE_COPY_OUT_BYTES) <= COPY_OUT_SMALL;
}

static bool is_full(const struct gpu_figures *figures)
{
	return of(figures, GPU_FIGURE_IDLE) < IDLE_FULL && of(figures, GPU_FIGURE_WAIT) >= WAIT_MIN;
}

static void judge_compute_bound(const struct gpu_figures *figures, struct gpu_share *share)
{
	bool pipes_are_full = of(figures, GPU_FIGURE_TENSOR_ACTIVE) >= PIPES_FULL ||
			      of(figures, GPU_FIGURE_FP_ACTIVE) >= PIPES_FULL;

	share->share = of(figures, GPU_FIGURE_WAIT);
	share->reached = is_full(figures) && of(figures, GPU_FIGURE_SM_ACTIVE) >= SM_FULL &&
			 pipes_are_full && of(figures, GPU_FIGURE_DRAM_ACTIVE) < DRAM_FULL;
}

static void judge_memory_bound(const struct gpu_figures *figures, struct gpu_share *share)
{
	share->share = of(figures, GPU_FIGURE_WAIT);
	share->reached = is_full(figures) && of(figures, GPU_FIGURE_DRAM_ACTIVE) >= DRAM_FULL &&
			 of(figures, GPU_FIGURE_TENSOR_ACTIVE) < TENSOR_FEW;
}

// Waits with a verdict of their own.
static double explained_waits(const struct gpu_figures *figures)
{
	return of(figures, GPU_FIGURE_IMPLICIT) + of(figures, GPU_FIGURE_COPY_IN) +
	       of(figures, GPU_FIGURE_ALLOCATION) + of(figures, GPU_FIGURE_COLLECTIVE);
}

// If it is unknown whether the GPU was busy, explicit waits are taken as a sign of it.
static void judge_busy(const struct gpu_figures *figures, struct gpu_share *share)
{
	double wait = of(figures, GPU_FIGURE_WAIT);

	share->share = wait;
	share->reached = gpu_figures_know(figures, GPU_FIGURE_IDLE)
				 ? is_full(figures)
				 : wait >= WAIT_MIN && explained_waits(figures) < wait / 2;
}

static void judge_allocator(const struct gpu_figures *figures, struct gpu_share *share)
{
	bool is_often = of(figures, GPU_FIGURE_ALLOCATION_RATE) >= ALLOCATIONS_MIN &&
			figures->range_ns >= ALLOCATION_RANGE_NS;

	share->share = of(figures, GPU_FIGURE_ALLOCATION);
	if (is_often)
		share->share = larger(share->share, ALLOCATION_MIN);
	share->reached = share->share >= ALLOCATION_MIN;
}

// For classes with one figure.
static void judge_by_figure(const struct gpu_figures *figures, struct gpu_share *share,
			    enum gpu_figure figure)
{
	share->share = of(figures, figure);
	share->reached = share->share >= share->threshold;
}

static void judge_memory_growth(const struct gpu_figures *figures, struct gpu_share *share)
{
	judge_by_figure(figures, share, GPU_FIGURE_MEMORY_GROWTH);
}

static void judge_lock(const struct gpu_figures *figures, struct gpu_share *share)
{
	judge_by_figure(figures, share, GPU_FIGURE_LOCK);
}

static void judge_gil(const struct gpu_figures *figures, struct gpu_share *share)
{
	judge_by_figure(figures, share, GPU_FIGURE_GIL);
}

static void judge_collective(const struct gpu_figures *figures, struct gpu_share *share)
{
	double wait = of(figures, GPU_FIGURE_COLLECTIVE), skew = of(figures, GPU_FIGURE_SKEW);

	share->share = larger(wait, skew);
	share->reached = wait >= COLLECTIVE_MIN || skew >= LAG_MIN;
}

static void judge_throttled(const struct gpu_figures *figures, struct gpu_share *share)
{
	judge_by_figure(figures, share, GPU_FIGURE_THROTTLED);
}

static void judge_contention(const struct gpu_figures *figures, struct gpu_share *share)
{
	judge_by_figure(figures, share, GPU_FIGURE_OTHERS);
}

#define NEEDS(figure) (1U << GPU_FIGURE_##figure)

static const struct {
	double threshold;
	uint32_t needs;  // all of these figures
	uint32_t either; // and one of these, if there are any
	void (*judge)(const struct gpu_figures *figures, struct gpu_share *share);
} classes[GPU_CLASS_COUNT] = {
	[GPU_CLASS_STARVED] = {
		.threshold = IDLE_MIN,
		.needs = NEEDS(IDLE) | NEEDS(INPUT) | NEEDS(FEEDERS),
		.judge = judge_starved,
	},
	[GPU_CLASS_CPU_BOUND] = {
		.threshold = IDLE_MIN,
		.needs = NEEDS(IDLE) | NEEDS(OWN_CPU),
		.judge = judge_cpu_bound,
	},
	[GPU_CLASS_LAUNCH_BOUND] = {
		.threshold = LAUNCH_CALLS_MIN,
		.needs = NEEDS(WAIT),
		.either = NEEDS(LAUNCH_CALLS) | NEEDS(LAUNCH_RATE),
		.judge = judge_launch_bound,
	},
	[GPU_CLASS_COPY_BOUND] = {
		.threshold = COPY_IN_MIN,
		.needs = NEEDS(COPY_IN),
		.judge = judge_copy_bound,
	},
	[GPU_CLASS_IMPLICIT_SYNC] = {
		.threshold = IMPLICIT_MIN,
		.needs = NEEDS(IMPLICIT),
		.judge = judge_implicit_sync,
	},
	[GPU_CLASS_COMPUTE_BOUND] = {
		.threshold = WAIT_MIN,
		.needs = NEEDS(IDLE) | NEEDS(WAIT) | NEEDS(SM_ACTIVE) | NEEDS(DRAM_ACTIVE),
		.either = NEEDS(TENSOR_ACTIVE) | NEEDS(FP_ACTIVE),
		.judge = judge_compute_bound,
	},
	[GPU_CLASS_MEMORY_BOUND] = {
		.threshold = WAIT_MIN,
		.needs = NEEDS(IDLE) | NEEDS(WAIT) | NEEDS(DRAM_ACTIVE) | NEEDS(TENSOR_ACTIVE),
		.judge = judge_memory_bound,
	},
	[GPU_CLASS_BUSY] = {
		.threshold = WAIT_MIN,
		.needs = NEEDS(WAIT),
		.judge = judge_busy,
	},
	[GPU_CLASS_ALLOCATOR] = {
		.threshold = ALLOCATION_MIN,
		.either = NEEDS(ALLOCATION) | NEEDS(ALLOCATION_RATE),
		.judge = judge_allocator,
	},
	[GPU_CLASS_MEMORY_GROWTH] = {
		.threshold = GROWTH_MIN,
		.needs = NEEDS(MEMORY_GROWTH),
		.judge = judge_memory_growth,
	},
	[GPU_CLASS_LOCK] = {
		.threshold = LOCK_MIN,
		.needs = NEEDS(LOCK),
		.judge = judge_lock,
	},
	[GPU_CLASS_GIL] = {
		.threshold = LOCK_MIN,
		.needs = NEEDS(GIL),
		.judge = judge_gil,
	},
	[GPU_CLASS_COLLECTIVE] = {
		.threshold = COLLECTIVE_MIN,
		.either = NEEDS(COLLECTIVE) | NEEDS(SKEW),
		.judge = judge_collective,
	},
	[GPU_CLASS_THROTTLED] = {
		.threshold = THROTTLED_MIN,
		.needs = NEEDS(THROTTLED),
		.judge = judge_throttled,
	},
	[GPU_CLASS_CONTENTION] = {
		.threshold = OTHERS_MIN,
		.needs = NEEDS(OTHERS),
		.judge = judge_contention,
	},
};

// ---- all classes ----------------------------------------------------------------------------

static uint32_t missing_of(const struct gpu_figures *figures, enum gpu_class class)
{
	uint32_t missing = classes[class].needs & ~figures->known;

	if (classes[class].either && !(classes[class].either & figures->known))
		missing |= classes[class].either;
	return missing;
}

static void judge_all(struct gpu_verdict *verdict, const struct gpu_figures *figures)
{
	for (int i = 0; i < GPU_CLASS_COUNT; i++) {
		struct gpu_share share = { .class = (enum gpu_class)i,
					   .threshold = classes[i].threshold };
		uint32_t missing = missing_of(figures, share.class);

		if (!classes[i].judge)
			continue;
		verdict->missing |= missing;
		share.judged = !missing;
		if (share.judged)
			classes[i].judge(figures, &share);
		verdict->shares[verdict->share_count++] = share;
	}
}

static struct gpu_share *share_of(struct gpu_verdict *verdict, enum gpu_class class)
{
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		if (verdict->shares[i].class == class)
			return &verdict->shares[i];
	}
	return NULL;
}

bool gpu_verdict_has_reached(const struct gpu_verdict *verdict, enum gpu_class class)
{
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		if (verdict->shares[i].class == class)
			return verdict->shares[i].reached;
	}
	return false;
}

// A bottleneck shows in several figures: name the cause, not its effects.
static void leave_out_effects(struct gpu_verdict *verdict)
{
	static const struct {
		enum gpu_class cause, effect;
	} effects[] = {
		// A GPU that is throttled, shared, or waits for other ranks looks busy.
		{ GPU_CLASS_THROTTLED, GPU_CLASS_COMPUTE_BOUND },
		{ GPU_CLASS_THROTTLED, GPU_CLASS_MEMORY_BOUND },
		{ GPU_CLASS_THROTTLED, GPU_CLASS_BUSY },
		{ GPU_CLASS_CONTENTION, GPU_CLASS_COMPUTE_BOUND },
		{ GPU_CLASS_CONTENTION, GPU_CLASS_MEMORY_BOUND },
		{ GPU_CLASS_CONTENTION, GPU_CLASS_BUSY },
		{ GPU_CLASS_COLLECTIVE, GPU_CLASS_COMPUTE_BOUND },
		{ GPU_CLASS_COLLECTIVE, GPU_CLASS_MEMORY_BOUND },
		{ GPU_CLASS_COLLECTIVE, GPU_CLASS_BUSY },
		{ GPU_CLASS_COLLECTIVE, GPU_CLASS_IMPLICIT_SYNC },
		// The saturated part of the GPU is the more precise verdict.
		{ GPU_CLASS_COMPUTE_BOUND, GPU_CLASS_BUSY },
		{ GPU_CLASS_MEMORY_BOUND, GPU_CLASS_BUSY },
		// Waiting for a full GPU costs nothing.
		{ GPU_CLASS_COMPUTE_BOUND, GPU_CLASS_IMPLICIT_SYNC },
		{ GPU_CLASS_MEMORY_BOUND, GPU_CLASS_IMPLICIT_SYNC },
		{ GPU_CLASS_BUSY, GPU_CLASS_IMPLICIT_SYNC },
		// Launching uses the CPU, and a thread that holds the GIL runs Python code.
		{ GPU_CLASS_LAUNCH_BOUND, GPU_CLASS_CPU_BOUND },
		{ GPU_CLASS_GIL, GPU_CLASS_CPU_BOUND },
	};

	for (size_t i = 0; i < ARRAY_SIZE(effects); i++) {
		if (gpu_verdict_has_reached(verdict, effects[i].cause))
			share_of(verdict, effects[i].effect)->reached = false;
	}
}

// Growing memory is no bottleneck yet: it ranks behind all others.
static int rank_of(const struct gpu_share *share)
{
	if (share->reached)
		return share->class == GPU_CLASS_MEMORY_GROWTH ? 1 : 0;
	return share->judged ? 2 : 3;
}

static int by_rank_and_share(const void *a, const void *b)
{
	const struct gpu_share *x = a, *y = b;

	if (rank_of(x) != rank_of(y))
		return rank_of(x) < rank_of(y) ? -1 : 1;
	if (x->share != y->share)
		return x->share < y->share ? 1 : -1;
	return (int)x->class - (int)y->class;
}

// ---- judging --------------------------------------------------------------------------------

static bool lacks_demand(const struct gpu_figures *figures)
{
	if (!gpu_figures_know(figures, GPU_FIGURE_INPUT) ||
	    !gpu_figures_know(figures, GPU_FIGURE_WAIT))
		return gpu_figures_know(figures, GPU_FIGURE_IDLE) &&
		       of(figures, GPU_FIGURE_IDLE) > 1 - IDLE_FULL;
	if (gpu_figures_know(figures, GPU_FIGURE_IDLE) && !is_idle(figures))
		return false;
	return of(figures, GPU_FIGURE_WAIT) < DEMAND_WAIT &&
	       of(figures, GPU_FIGURE_OWN_CPU) < DEMAND_CPU &&
	       of(figures, GPU_FIGURE_INPUT) >= INPUT_OF_IDLE &&
	       of(figures, GPU_FIGURE_FEEDERS) < FEEDERS_MIN;
}

static enum gpu_class class_of(struct gpu_verdict *verdict, const struct gpu_figures *figures)
{
	const struct gpu_share *shares = verdict->shares;

	if (!figures->in_use)
		return GPU_CLASS_NO_GPU;
	// Throttling is certain: it wins over everything.
	if (gpu_verdict_has_reached(verdict, GPU_CLASS_THROTTLED))
		return GPU_CLASS_THROTTLED;
	if (!verdict->reached_count)
		return lacks_demand(figures) ? GPU_CLASS_NO_DEMAND : GPU_CLASS_NONE;
	if (verdict->reached_count > 1 && rank_of(&shares[1]) == rank_of(&shares[0]) &&
	    shares[1].share >= AMBIGUOUS_SHARE * shares[0].share)
		return GPU_CLASS_AMBIGUOUS;
	return shares[0].class;
}

static enum verdict_confidence confidence_of(struct gpu_verdict *verdict,
					     const struct gpu_figures *figures)
{
	const struct gpu_share *share = share_of(verdict, verdict->class);

	if (figures->range_ns < SURE_RANGE_NS)
		return CONFIDENCE_LOW;
	if (verdict->class == GPU_CLASS_NO_DEMAND)
		return gpu_figures_know(figures, GPU_FIGURE_IDLE) ? CONFIDENCE_HIGH
								  : CONFIDENCE_MEDIUM;
	if (!share) // ambiguous, or nothing stands out
		return CONFIDENCE_LOW;
	// Most classes depend on whether the GPU was idle.
	if (!gpu_figures_know(figures, GPU_FIGURE_IDLE))
		return verdict->class == GPU_CLASS_BUSY ? CONFIDENCE_LOW : CONFIDENCE_MEDIUM;
	return share->share >= smaller(SURE_TIMES * share->threshold, SURE_SHARE)
		       ? CONFIDENCE_HIGH
		       : CONFIDENCE_MEDIUM;
}

struct gpu_verdict gpu_verdict_of(const struct gpu_figures *figures)
{
	struct gpu_verdict verdict = { 0 };

	if (figures->in_use) {
		judge_all(&verdict, figures);
		leave_out_effects(&verdict);
		qsort(verdict.shares, verdict.share_count, sizeof(verdict.shares[0]),
		      by_rank_and_share);
	}
	while (verdict.reached_count < verdict.share_count &&
	       verdict.shares[verdict.reached_count].reached)
		verdict.reached_count++;
	verdict.class = class_of(&verdict, figures);
	verdict.confidence = confidence_of(&verdict, figures);
	return verdict;
}

void gpu_verdict_set_intermittent(struct gpu_verdict *verdict)
{
	verdict->is_intermittent = true;
	verdict->confidence = CONFIDENCE_LOW;
}

bool gpu_class_is_bottleneck(enum gpu_class class)
{
	return class == GPU_CLASS_AMBIGUOUS || classes[class].judge;
}
