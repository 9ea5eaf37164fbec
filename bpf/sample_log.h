/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Samples as the sampler writes them down: one after the other, on each CPU. Hardly any tick finds its
// stack, leaf and time slot counted already, so there is nothing to add up in the kernel; a new entry of a
// hash map touches six cold cache lines where this touches two.
#pragma once

#include "sample.h"

/*
 * Of one CPU, between two swaps: 6 s at 99 Hz, 160 KiB with both halves. What does not fit goes to the
 * counts, where nothing is lost.
 */
#define SAMPLE_LOG_ENTRIES 640

struct logged_sample {
	struct count_key key;
	struct count count;
	__u64 generation; // of the counts maps when it was written, plus 1; another: this place is free
};

_Static_assert(sizeof(struct logged_sample) == 128, "two cache lines");

/* Each CPU has two halves, which take turns as the counts maps do. */
static inline __u32 sample_log_place(__u32 cpu, __u32 generation)
{
	return (cpu * 2 + (generation & 1)) * SAMPLE_LOG_ENTRIES;
}
