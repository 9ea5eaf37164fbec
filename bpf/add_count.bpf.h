/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Adds to the counts that the agent drains.
#pragma once

#include "bpf/maps.bpf.h"

/* An atomic whose result is used orders memory on every architecture. */
static __always_inline void add_in_order(__u64 *value, __u64 amount)
{
	__u64 before = __sync_fetch_and_add(value, amount);

	asm volatile("" ::"r"(before));
}

/* Swaps are rare: two in a row mean that this count is dropped as COUNTS_BUSY. */
#define ENTER_TRIES 2

/*
 * Enters the active counts map; leave_counts() comes afterwards. Returns its number or -1. The agent swaps
 * the maps and then looks who is in the old one. It may look before this program shows up there, so the
 * program checks again after it has. BPF programs stay on their CPU.
 */
static __always_inline int enter_counts(struct counts_users *users)
{
	__u32 *active = &shared.active_counts;

#pragma unroll
	for (__u32 i = 0; i < ENTER_TRIES; i++) {
		__u32 which = *(volatile __u32 *)active & 1;

		add_in_order(&users->in[which], 1);
		if ((*(volatile __u32 *)active & 1) == which)
			return (int)which;
		add_in_order(&users->in[which], -1);
	}
	return -1;
}

static __always_inline void leave_counts(struct counts_users *users, __u32 which)
{
	add_in_order(&users->in[which & 1], -1);
}

static __always_inline int add_to_map(void *counts, const struct count_key *key, __u64 value,
				      __u64 samples)
{
	// Other kinds have counters of their own.
	__u64 on_cpu = key->kind == SAMPLE_KIND_ON_CPU;
	struct count first = { .value = value, .samples = samples };
	struct count *counts_of_key;
	long rc = 0;

	counts_of_key = bpf_map_lookup_elem(counts, key);
	if (!counts_of_key) {
		rc = bpf_map_update_elem(counts, key, &first, BPF_NOEXIST);
		if (!rc)
			return count(COUNTER_COUNTS_NEW) + count_many(COUNTER_SAMPLES, on_cpu);
		// -EEXIST: another CPU was faster.
		counts_of_key = bpf_map_lookup_elem(counts, key);
	}
	if (!counts_of_key)
		return count(rc == -EBUSY ? COUNTER_COUNTS_BUSY : COUNTER_COUNTS_FULL);
	__sync_fetch_and_add(&counts_of_key->value, value);
	__sync_fetch_and_add(&counts_of_key->samples, samples);
	return count_many(COUNTER_SAMPLES, on_cpu);
}

static __always_inline int add_count(const struct count_key *key, __u64 value, __u64 samples)
{
	struct counts_users *users;
	__u32 zero = 0, which;
	void *counts;
	int entered;

	users = bpf_map_lookup_elem(&counts_users, &zero);
	if (!users)
		return 0; // cannot happen
	entered = enter_counts(users);
	if (entered < 0)
		return count(COUNTER_COUNTS_BUSY);
	which = (__u32)entered;
	counts = bpf_map_lookup_elem(&counts_maps, &which);
	if (counts)
		add_to_map(counts, key, value, samples);
	else
		count(COUNTER_COUNTS_FULL);
	leave_counts(users, which);
	return 0;
}
