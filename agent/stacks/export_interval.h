// SPDX-License-Identifier: Apache-2.0
// The profile of one export interval while it is filled: each count drained from the BPF programs' maps
// becomes a sample with its series (labels of process and thread) and its stack. One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/calibration.h"
#include "agent/stacks/frame_resolver.h"
#include "agent/stacks/held_counts.h"
#include "agent/stacks/nccl_labels.h"
#include "agent/stacks/series_quota.h"
#include "agent/stacks/stack_parts.h"
#include "agent/stacks/wait_class_cache.h"
#include "base/hash_table.h"
#include "base/profile/profile.h"
#include "bpf/sample.h"

/** What names its samples; outlives it. */
struct export_interval_sources {
	struct frame_resolver frames;
	struct stack_table *stacks;
	struct wait_class_cache *wait_classes; // NULL: stacks are classified in each interval
	struct series_quota *quota;            // NULL: a process may have any number of series
	struct held_counts *held;              // NULL: no count waits for its process's pod
	bool folds_thread_names;               // thread_label_of()
};

/** The threads of one name of a process, what was measured of them, and the series of both. */
struct export_interval_series {
	struct process_key process;
	char thread[24];       // the label, with a NUL; no padding, as it is hashed
	uint32_t kind;         // enum sample_kind
	uint32_t wait;         // enum wait_class, for kinds that have it
	uint64_t grid;         // power of two of the number of blocks, for kinds that have it
	struct nccl_call nccl; // zero for kinds that are not NCCL's
	uint32_t number;
};

/** A value per stack of the profile; 0: not computed yet. */
struct export_interval_cache {
	uint8_t *values; // by stack
	uint32_t capacity;
};

/** Off-CPU time by stack, not yet calibrated. */
struct export_interval_wait {
	uint32_t series, stack;
	uint32_t threads; // of the calibration
	uint32_t more_slots;
	uint64_t slot;
	uint64_t value;
	uint8_t time; // enum calibrated_time
	bool is_sampled;
};

struct export_interval {
	struct export_interval_sources sources;
	struct profile *profile;
	uint64_t slot_min;   // no sample begins before it: the wire bounds a profile's time range
	uint64_t slot_first; // the first that a sample covers so far
	struct export_interval_series *series;
	uint32_t series_count, series_capacity;
	struct hash_table series_index;
	uint32_t communicators;             // series with a known NCCL communicator
	struct export_interval_cache waits; // enum wait_class + 1
	struct export_interval_cache spins; // gpu_spin_is() + 1
	struct calibration calibration;
	struct export_interval_wait *off_cpu; // samples once all counts are in
	uint32_t off_cpu_count, off_cpu_capacity;
	struct joined_stack joined;           // the stack being added
	uint32_t positions[STACK_FRAMES_MAX]; // its locations' positions in the profile
	uint32_t position_count;
	uint64_t stacks_lost;   // counts whose stack trace never came
	uint64_t threads_other; // counts of threads whose name was past the quota
	uint64_t series_other;  // counts whose series was past the quota
	uint64_t
		unspread; // counts of sampled off-CPU intervals that stay in their slot: too many slots
	uint64_t excluded; // samples of processes that are not to be profiled
};

/** An empty profile from @from_ns on. Returns 0 or -ENOMEM. */
int export_interval_init(struct export_interval *interval,
			 const struct export_interval_sources *sources, uint64_t slot_ns,
			 uint64_t from_ns);
void export_interval_deinit(struct export_interval *interval);

/**
 * Add one count, drained @now_ns, unless its process is not to be profiled, or it is kept back. A count that spans minutes of Unix time becomes one sample in each; the
 * samples sum up to its value. Returns 0, or a negative errno: not all of it is in.
 */
int export_interval_add(struct export_interval *interval, const struct count_key *key,
			const struct count *count, uint64_t now_ns);

/**
 * Add a sample without a thread or stack: @value, spread evenly from @slot to @last_slot, in the series of
 * @labels (copied) and @type. Split at minutes and returns as export_interval_add().
 */
int export_interval_add_value(struct export_interval *interval, const struct labels *labels,
			      const char *type, uint64_t slot, uint64_t last_slot, int64_t value);

/**
 * Returns the sorted profile, the caller's, or NULL when out of memory. It begins before the interval if a
 * blocked time did. Off-CPU time by stack adds up to the totals of each thread name; where no stack is
 * known, it ends as STACK_END_NOT_SAMPLED. The interval is empty then and must be deinited.
 */
struct profile *export_interval_finish(struct export_interval *interval, uint64_t to_ns);
