// SPDX-License-Identifier: Apache-2.0
// One window's profile in the making: each count drained from the kernel becomes a sample of a
// series (whose it is) and a stack (kernel frames on top of user frames). One thread.
#pragma once

#include <stdint.h>

#include "agent/stacks/frame_resolver.h"
#include "agent/stacks/nccl_labels.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/wait_class_cache.h"
#include "base/hash_table.h"
#include "base/profile.h"
#include "bpf/sample.h"

/** What a window reads; the profiler's, which outlive it. */
struct export_interval_sources {
	struct frame_resolver frames;
	struct stack_table *stacks;
	struct wait_class_cache *wait_classes; // NULL: stacks are classed anew in each window
};

/** What was measured of a process's threads of one name, and its series in the profile. */
struct export_interval_series {
	struct process_key process;
	char thread_name[THREAD_NAME_BYTES];
	uint32_t kind;       // enum sample_kind
	uint32_t wait;       // enum wait_class, for kinds that have it
	uint64_t grid;       // class of the number of blocks, for kinds that have it
	struct nccl_of nccl; // zero for kinds that are not NCCL's
	uint32_t number;
};

/** What was found out about the profile's stacks; 0: not asked for yet. */
struct export_interval_cache {
	uint8_t *values; // by stack
	uint32_t capacity;
};

struct export_interval {
	struct export_interval_sources sources;
	struct profile *profile;
	uint64_t slot_min; // no sample begins before it: the wire refuses windows that are too long
	uint64_t slot_first; // that a sample covers so far
	struct export_interval_series *series;
	uint32_t series_count, series_capacity;
	struct hash_table series_index;
	uint32_t communicators;               // series of known communicators
	struct export_interval_cache waits;   // enum wait_class + 1
	struct export_interval_cache spins;   // gpu_spin_is() + 1
	uint32_t positions[STACK_FRAMES_MAX]; // the stack in work, in the profile's locations
	uint32_t position_count;
	uint64_t stacks_lost; // counts whose stack's body never came
};

/** An empty profile from @from_ns on. Returns 0 or -ENOMEM. */
int export_interval_init(struct export_interval *interval,
			 const struct export_interval_sources *sources, uint64_t slot_ns,
			 uint64_t from_ns);
void export_interval_deinit(struct export_interval *interval);

/**
 * Add one count, first seen by the agent @now_ns. An interval that reaches over minutes of Unix time
 * becomes one sample in each; their sum is the count's value. Returns 0, or a negative errno: it is
 * not in, or not all of it.
 */
int export_interval_add(struct export_interval *interval, const struct count_key *key,
			const struct count *count, uint64_t now_ns);

/**
 * Add what is no thread's: @value, spread evenly from @slot to @last_slot, of the series of these
 * labels (copied) and this type, without a stack. Cut at minutes as above. Returns 0 or a negative
 * errno: it is not in, or not all of it.
 */
int export_interval_add_value(struct export_interval *interval, const struct labels *labels,
			      const char *type, uint64_t slot, uint64_t last_slot, int64_t value);

/**
 * The finished profile, sorted; the caller's. It begins earlier than the window if a wait did. The
 * window is empty then and must be deinited.
 */
struct profile *export_interval_finish(struct export_interval *interval, uint64_t to_ns);
