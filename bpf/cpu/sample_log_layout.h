/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Samples as the sampler writes them down: one after the other, on each CPU. Hardly any tick finds its
// stack, leaf and time slot counted already, so there is nothing to add up in the kernel; a new entry of a
// hash map touches six cold cache lines where this touches two.
#pragma once

#include "bpf/sample.h"

/*
 * Samples of one CPU between two swaps: 6 s at 99 Hz, 160 KiB with both halves. What does not fit goes to
 * the counts, where nothing is lost.
 */
#define SAMPLE_LOG_ENTRIES_MAX 640
/* Of all CPUs that are possible, which may be many more than there are: with more than 51, each has less. */
#define SAMPLE_LOG_BYTES_MAX (8U << 20)

struct logged_sample {
	struct count_key key;
	struct count count;
	__u64 generation; // of the counts maps when it was written, plus 1; another: this place is free
};

_Static_assert(sizeof(struct logged_sample) == 128, "two cache lines");

/* So many each CPU has room for in each of its halves, which take turns as the counts maps do. */
static inline __u32 sample_log_entries(__u32 cpu_count)
{
	__u32 entries = SAMPLE_LOG_BYTES_MAX / sizeof(struct logged_sample) / 2 / cpu_count;

	return entries < SAMPLE_LOG_ENTRIES_MAX ? entries : SAMPLE_LOG_ENTRIES_MAX;
}

/* Where a CPU's half begins in the log. */
static inline __u32 sample_log_place(__u32 cpu, __u32 generation, __u32 entries)
{
	return (cpu * 2 + (generation & 1)) * entries;
}
