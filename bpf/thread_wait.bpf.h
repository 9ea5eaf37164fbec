/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A thread's waits by the stack that waits: those with the same stack in the same time slot are added
// up beside the thread, and counted when one of the two is another.
//
// Functions that are not inlined are verified once, not for each path that leads to them. They get
// memory only, which the verifier wants to see checked for NULL.
#pragma once

#include "add_count.bpf.h"
#include "switch_memo.bpf.h"
#include "thread_time.h"

/* By how the thread lost its CPU: the lowest bit of enum thread_state, for the verifier. */
enum wait_kind {
	WAIT_BLOCKED = THREAD_BLOCKED & 1,
	WAIT_FOR_CPU = THREAD_WAITING & 1,
	WAIT_KINDS,
};

/* Where a thread waits: its stack there, how to know it again, and what is to be counted for it. */
struct wait_place {
	struct count_key key; // slot: of what is pending
	struct count pending[WAIT_KINDS];
	struct switch_memo memo;
};

/* A thread that goes round a loop waits in a few places in turn. A power of two. */
#define WAIT_PLACES 4
/* The last is for waits outside of system calls, which have no memo. */
#define WAIT_PLACE_OTHER (WAIT_PLACES - 1)

/* Kept for each thread. Who has the lock may touch it; nobody waits for the lock. */
struct thread_wait {
	__u32 lock;
	__u32 weight; // of the wait that began with the last switch; 0: it was not chosen
	__u32 place;  // of that wait, if it was chosen
	__u32 misses; // of the memos: they are replaced in turn
	__u64 recent_ns[WAIT_KINDS]; // mean length of the last waits
	struct wait_place places[WAIT_PLACES];
};

#define WAIT_EXPECTED_FIRST_NS 100000000ULL // a thread's first waits are likely to be chosen

static __always_inline bool wait_lock(struct thread_wait *wait)
{
	return __sync_bool_compare_and_swap(&wait->lock, 0, 1);
}

static __always_inline void wait_unlock(struct thread_wait *wait)
{
	__sync_lock_test_and_set(&wait->lock, 0); // in this order, on every processor
}

static __always_inline __u64 slot_at(__u64 monotonic_ns)
{
	return (monotonic_ns + realtime_offset_ns) / slot_ns;
}

/* The place where the current thread stands, or -1: none of its memos fits. */
__attribute__((noinline)) int wait_find(struct thread_wait *wait, struct switch_place *place,
					__u64 now, __u32 exec_id)
{
	if (!wait || !place || !read_place(place))
		return -1;
#pragma unroll
	for (__u32 i = 0; i < WAIT_PLACE_OTHER; i++) {
		if (memo_fits(&wait->places[i].memo, place, exec_id, now))
			return i;
	}
	return -1;
}

/* As add_count(). The key is copied: older kernels take it from the stack only. */
__attribute__((noinline)) int count_one(const struct count_key *key, __u64 value, __u64 samples)
{
	struct count_key copy;

	if (!key)
		return 0;
	copy = *key;
	return add_count(&copy, value, samples);
}

/* Count what is pending. Returns how many counts that were. */
static __always_inline int flush_place(struct wait_place *place)
{
	struct count *blocked = &place->pending[WAIT_BLOCKED];
	struct count *for_cpu = &place->pending[WAIT_FOR_CPU];
	int counts = 0;

	if (blocked->samples) {
		place->key.kind = SAMPLE_KIND_OFF_CPU;
		count_one(&place->key, blocked->value, blocked->samples);
		blocked->value = 0;
		blocked->samples = 0;
		counts++;
	}
	if (for_cpu->samples) {
		place->key.kind = SAMPLE_KIND_SCHED_DELAY;
		count_one(&place->key, for_cpu->value, for_cpu->samples);
		for_cpu->value = 0;
		for_cpu->samples = 0;
		counts++;
	}
	return counts;
}

__attribute__((noinline)) int wait_flush(struct wait_place *place)
{
	return place ? flush_place(place) : 0;
}

static __always_inline int count_interval(struct wait_place *place, __u32 kind, __u64 ns,
					  __u64 slot, __u64 last_slot, __u32 weight)
{
	if (!ns)
		return 0;
	place->key.kind = kind;
	place->key.slot = slot;
	place->key.more_slots = last_slot > slot ? last_slot - slot : 0;
	count_one(&place->key, ns * weight, weight);
	place->key.more_slots = 0;
	return 1;
}

/*
 * The thread was blocked there and then waited for a CPU, from @from_ns on; it stands for @weight
 * waits. Returns how many counts that took.
 */
__attribute__((noinline)) int wait_charge(struct wait_place *place, __u64 from_ns, __u64 blocked_ns,
					  __u64 waiting_ns, __u32 weight)
{
	__u64 slot = slot_at(from_ns), last = slot_at(from_ns + blocked_ns + waiting_ns), woken;
	int counts = 0;

	if (!place)
		return 0;
	if (place->key.slot != slot || last != slot)
		counts = flush_place(place);
	if (last != slot) {
		woken = slot_at(from_ns + blocked_ns);
		counts +=
			count_interval(place, SAMPLE_KIND_OFF_CPU, blocked_ns, slot, woken, weight);
		counts += count_interval(place, SAMPLE_KIND_SCHED_DELAY, waiting_ns, woken, last,
					 weight);
		return counts;
	}
	place->key.slot = slot;
	place->pending[WAIT_BLOCKED].value += blocked_ns * weight;
	place->pending[WAIT_BLOCKED].samples += blocked_ns ? weight : 0;
	place->pending[WAIT_FOR_CPU].value += waiting_ns * weight;
	place->pending[WAIT_FOR_CPU].samples += waiting_ns ? weight : 0;
	return counts;
}
