/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// How a CPU chooses events whose stacks it takes. While events are few, all are chosen. In a storm every
// n-th is, and stands for those before it.
#pragma once

#include "bpf/maps.bpf.h"

struct pace {
	__u64 epoch_ns; // when the current epoch began
	__u32 count;    // events in this epoch
	__u32 before;   // in the one before
	__u32 since;    // after the last one chosen
	__u32 gap;      // the next one to be chosen
	__u32 pad;
};

#define EPOCH_NS          100000000ULL
#define EPOCHS_PER_SECOND 10
#define STORM_LOOKS       16

/* Events in a gap at the present rate, for @stacks a second; 1: each is to be chosen. */
static __always_inline __u32 pace_mean_gap(const struct pace *pace, __u32 stacks)
{
	__u32 seen = pace->count > pace->before ? pace->count : pace->before;

	stacks /= EPOCHS_PER_SECOND;
	if (!stacks)
		stacks = 1;
	return seen > stacks ? seen / stacks : 1;
}

/* Gaps vary, so that no program whose events have a pattern stays in step with them. */
static __always_inline __u32 pace_choose_gap(const struct pace *pace, __u32 stacks)
{
	__u32 mean = pace_mean_gap(pace, stacks);

	return mean > 1 ? mean / 2 + bpf_get_prandom_u32() % mean + 1 : 1;
}

static __always_inline void pace_begin_epoch(struct pace *pace, __u32 stacks, __u64 now,
					     enum bpf_counter uncharged)
{
	pace->before = now - pace->epoch_ns < 2 * EPOCH_NS ? pace->count : 0;
	pace->epoch_ns = now;
	pace->count = 0;
	if (pace->gap > 1 && pace_mean_gap(pace, stacks) == 1) {
		// The storm is over: what is left of it must not be charged to who comes next.
		count_many(uncharged, pace->since);
		pace->gap = 1;
		pace->since = 0;
	}
}

/* How many events does this one stand for, itself among them? 0: its stack is not to be taken. */
static __always_inline __u32 pace_sample(struct pace *pace, __u32 stacks,
					 enum bpf_counter uncharged)
{
	__u32 weight;

	// In a storm the clock is looked at now and then: it costs as much as all the rest here.
	if (pace->gap <= 1 || pace->count % STORM_LOOKS == 0) {
		__u64 now = bpf_ktime_get_ns();

		if (now - pace->epoch_ns >= EPOCH_NS)
			pace_begin_epoch(pace, stacks, now, uncharged);
	}
	pace->count++;
	weight = ++pace->since;
	if (weight < pace->gap)
		return 0;
	pace->since = 0;
	pace->gap = pace_choose_gap(pace, stacks);
	return weight;
}
