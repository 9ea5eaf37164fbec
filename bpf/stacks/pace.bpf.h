/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Limits the stacks that a CPU captures per second. While events are few, each one is sampled. In a storm
// one in n is, and has the weight of those before it. A burst may use what was not used in the seconds before it.
#pragma once

#include "bpf/maps.bpf.h"

struct pace {
	__u64 epoch_ns; // when the current epoch began
	__u64 credit;   // stacks that were not captured in the last seconds, and may be in the next
	__u32 count;    // events in this epoch
	__u32 before;   // events in the epoch before
	__u32 since;    // events after the last sampled one
	__u32 gap;      // from one sampled event to the next
};

#define EPOCH_NS          100000000ULL
#define EPOCHS_PER_SECOND 10
#define STORM_LOOKS       16

/* What a CPU may capture. */
struct pace_limit {
	__u32 stacks;        // a second
	__u32 burst_seconds; // worth of stacks that may be saved up
};

/* Mean gap at the present rate; 1: sample each event. */
static __always_inline __u32 pace_mean_gap(const struct pace *pace, const struct pace_limit *limit)
{
	__u64 seen = pace->count > pace->before ? pace->count : pace->before;
	__u64 stacks = limit->stacks + pace->credit;

	seen *= EPOCHS_PER_SECOND;
	if (!stacks)
		stacks = 1;
	return seen > stacks ? seen / stacks : 1;
}

/* Gaps vary: a program whose events have a pattern must not stay in step with them. */
static __always_inline __u32 pace_choose_gap(const struct pace *pace,
					     const struct pace_limit *limit)
{
	__u32 mean = pace_mean_gap(pace, limit);

	return mean > 1 ? mean / 2 + bpf_get_prandom_u32() % mean + 1 : 1;
}

static __always_inline void pace_save(struct pace *pace, const struct pace_limit *limit, __u64 ns)
{
	__u64 ms = ns / 1000000, most = (__u64)limit->burst_seconds * limit->stacks;

	if (ms > 1000ULL * limit->burst_seconds)
		ms = 1000ULL * limit->burst_seconds;
	pace->credit += ms * limit->stacks / 1000;
	if (pace->credit > most)
		pace->credit = most;
}

static __always_inline void pace_begin_epoch(struct pace *pace, const struct pace_limit *limit,
					     __u64 now, enum bpf_counter uncharged)
{
	pace_save(pace, limit, now - pace->epoch_ns);
	pace->before = now - pace->epoch_ns < 2 * EPOCH_NS ? pace->count : 0;
	pace->epoch_ns = now;
	pace->count = 0;
	if (pace->gap > 1 && pace_mean_gap(pace, limit) == 1) {
		// The storm is over: the next event must not have the weight of what is left of it.
		count_many(uncharged, pace->since);
		pace->gap = 1;
		pace->since = 0;
	}
}

/* The weight of this event, itself included; 0: sampled out. */
static __always_inline __u32 pace_sample(struct pace *pace, const struct pace_limit *limit,
					 enum bpf_counter uncharged)
{
	__u32 weight;

	// In a storm the clock is read now and then: it costs as much as all the rest here.
	if (pace->gap <= 1 || pace->count % STORM_LOOKS == 0) {
		__u64 now = bpf_ktime_get_ns();

		if (now - pace->epoch_ns >= EPOCH_NS)
			pace_begin_epoch(pace, limit, now, uncharged);
	}
	pace->count++;
	weight = ++pace->since;
	if (weight < pace->gap)
		return 0;
	pace->since = 0;
	pace->credit -= pace->credit != 0;
	pace->gap = pace_choose_gap(pace, limit);
	return weight;
}
