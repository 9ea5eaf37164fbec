/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The log of on-CPU samples, one per CPU. Hardly any tick repeats a stack, leaf and slot, so there is nothing
// to add up in the kernel; a new hash-map entry would touch six cold cache lines, this touches two.
#pragma once

#include "bpf/sample.h"

/*
 * Entries of one CPU between two swaps: 6 s at 99 Hz, 160 KiB for both halves. Further samples go to the
 * counts map, so nothing is lost.
 */
#define SAMPLE_LOG_ENTRIES_MAX 640
/* Over all possible CPUs, which may be many more than there are: with more than 51, each has fewer. */
#define SAMPLE_LOG_BYTES_MAX (8U << 20)

struct logged_sample {
	struct count_key key;
	struct count count;
	__u64 generation; // of the counts maps, plus 1; any other value: this entry is free
};

_Static_assert(sizeof(struct logged_sample) == 128, "two cache lines");

/* Entries of each of a CPU's two halves, which are swapped with the counts maps. */
static inline __u32 sample_log_entries(__u32 cpu_count)
{
	__u32 entries = SAMPLE_LOG_BYTES_MAX / sizeof(struct logged_sample) / 2 / cpu_count;

	return entries < SAMPLE_LOG_ENTRIES_MAX ? entries : SAMPLE_LOG_ENTRIES_MAX;
}

/* Index of the first entry of a CPU's half. */
static inline __u32 sample_log_place(__u32 cpu, __u32 generation, __u32 entries)
{
	return (cpu * 2 + (generation & 1)) * entries;
}
