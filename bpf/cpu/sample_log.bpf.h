/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Appends samples to a per-CPU log that the agent reads.
#pragma once

#include "bpf/add_count.bpf.h"
#include "bpf/cpu/sample_log_layout.h"

const volatile __u32 sample_log_capacity = 0; // entries per half; set before load

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // the agent sets it by the number of CPUs
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct logged_sample);
} sample_log SEC(".maps");

/* Where a CPU appends next. */
struct sample_log_end {
	__u64 generation;
	__u64 count;
};

static __always_inline bool write_sample(struct sample_log_end *end, __u32 generation,
					 const struct count_key *key, __u64 value)
{
	struct logged_sample *sample;
	__u32 at;

	if (end->generation != generation) {
		end->generation = generation;
		end->count = 0;
	}
	if (end->count >= sample_log_capacity)
		return false;
	at = sample_log_place(bpf_get_smp_processor_id(), generation, sample_log_capacity) +
	     end->count;
	sample = bpf_map_lookup_elem(&sample_log, &at);
	if (!sample)
		return false;
	sample->key = *key;
	sample->count.value = value;
	sample->count.samples = 1;
	sample->generation = generation + 1ULL;
	end->count++;
	return true;
}

/* Returns false if the half is full or the maps are just being swapped. */
static __always_inline bool log_sample(struct sample_log_end *end, const struct count_key *key,
				       __u64 value)
{
	__u32 *active = &shared.active_counts, zero = 0, generation;
	struct counts_users *users = bpf_map_lookup_elem(&counts_users, &zero);
	bool written = false;
	int which;

	if (!users)
		return false;
	which = enter_counts(users);
	if (which < 0)
		return false;
	// Maps are not swapped twice while this program is in one.
	generation = *(volatile __u32 *)active;
	if ((generation & 1) == (__u32)which)
		written = write_sample(end, generation, key, value);
	leave_counts(users, which);
	return written;
}
