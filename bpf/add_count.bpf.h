/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Adds to the counts that the agent drains.
#pragma once

#include "maps.bpf.h"

static __always_inline int add_count(const struct count_key *key, __u64 value, __u64 samples)
{
	// Other kinds of counts have counters of their own.
	__u64 on_cpu = key->kind == SAMPLE_KIND_ON_CPU;
	struct count first = { .value = value, .samples = samples };
	struct count *counts_of_key;
	__u32 zero = 0;
	void *counts = bpf_map_lookup_elem(&active_counts, &zero);
	long rc = 0;

	if (!counts)
		return count(COUNTER_COUNTS_FULL);
	counts_of_key = bpf_map_lookup_elem(counts, key);
	if (!counts_of_key) {
		rc = bpf_map_update_elem(counts, key, &first, BPF_NOEXIST);
		if (!rc)
			return count(COUNTER_COUNTS_NEW) + count_many(COUNTER_SAMPLES, on_cpu);
		// -EEXIST: another CPU was a moment faster.
		counts_of_key = bpf_map_lookup_elem(counts, key);
	}
	if (!counts_of_key)
		return count(rc == -EBUSY ? COUNTER_COUNTS_BUSY : COUNTER_COUNTS_FULL);
	__sync_fetch_and_add(&counts_of_key->value, value);
	__sync_fetch_and_add(&counts_of_key->samples, samples);
	return count_many(COUNTER_SAMPLES, on_cpu);
}
