/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A thread's waits by the stack that waits: those with the same stack in the same span of time, a slot
// or some more, are added up beside the thread, and counted when one of the two is another.
//
// Functions that are not inlined are verified once, not for each path that leads to them. They get
// memory only, which the verifier wants to see checked for NULL.
#pragma once

#include "bpf/add_count.bpf.h"
#include "bpf/gpu/gpu_idle.bpf.h"
#include "bpf/switch/stack_cache.bpf.h"
#include "bpf/switch/thread_time.h"

/* By how the thread lost its CPU: the lowest bit of enum thread_state, for the verifier. */
enum wait_kind {
	WAIT_BLOCKED = THREAD_BLOCKED & 1,
	WAIT_FOR_CPU = THREAD_RUN_QUEUE & 1,
	WAIT_KINDS,
};

/* Where a thread waits: its stack there, how to know it again, and what is to be counted for it. */
struct wait_site {
	struct count_key key; // slot: the first of what is pending
	__u64 until_ns;       // what ends before is added to it; 0: nothing is pending
	__u64 last_ns;        // end of its last wait
	struct count pending[WAIT_KINDS];
	struct stack_cache memo;
};

/* A thread that goes round a loop waits in a few places in turn. A power of two. */
#define WAIT_SITES 4
/* The last is for waits outside of system calls, which have no memo. */
#define WAIT_SITE_OTHER (WAIT_SITES - 1)

/*
 * Waits are alike that are of the same system call, on the same thing: a thread that passes a lock a thousand times
 * and then sleeps is not likely to sleep as shortly. The first are those for a CPU.
 */
#define WAITS_ALIKE        32 // two kinds fall together with a chance of 1/31
#define WAIT_RECENT_NS_MAX 4000000000ULL

/* Kept for each thread. Who has the lock may touch it; nobody waits for the lock. */
struct thread_wait {
	__u32 lock;
	__u32 weight;     // of the wait that began with the last switch; 0: it was not chosen
	__u32 place;      // of that wait, if it was chosen
	__u32 words;      // of the stack that the memos compare at most
	__u32 has_python; // stacks of this thread that were remembered had Python frames
	__u32 alike;      // which waits the one that began with the last switch is like
	// Of sleepers.bpf.c, whose passes have numbers.
	__u32 tries;                  // that have not given a whole stack
	__u32 due_in_pass;            // the next one
	__u32 recent_ns[WAITS_ALIKE]; // mean length of the last of each, up to the maximum
	struct wait_site places[WAIT_SITES];
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

/* Which of the thread's waits the one that begins there is like: enum thread_state says how it begins. */
static __always_inline __u32 wait_alike(const struct switch_place *place, __u32 left_as)
{
	__u64 hash = place->call * HASH_C1;

	return left_as == THREAD_BLOCKED ? 1 + (__u32)((hash >> 32) * (WAITS_ALIKE - 1) >> 32) : 0;
}

static __always_inline __u32 *recent_of_wait(struct thread_wait *wait)
{
	return &wait->recent_ns[wait->alike & (WAITS_ALIKE - 1)];
}

static __always_inline __u64 slot_at(__u64 monotonic_ns)
{
	return (monotonic_ns + shared.realtime_offset_ns) / slot_ns;
}

/* The place where the current thread stands, or -1: none of its memos fits. */
__attribute__((noinline)) int wait_find(struct thread_wait *wait, struct switch_place *place,
					__u64 now, __u32 exec_id)
{
	if (!wait || !place || !read_place(place, wait->words))
		return -1;
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		if (memo_fits(&wait->places[i].memo, place, exec_id, now))
			return i;
	}
	return -1;
}

/*
 * The place to give up for one that is not remembered. Where a thread was preempted it will not be
 * again: that must not drive out where it waits each time.
 */
static __always_inline __u32 wait_replace(struct thread_wait *wait)
{
	__u32 least = 0;

#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		struct stack_cache *memo = &wait->places[i].memo;

		memo->uses -= memo->uses / 4;
		if (memo->uses < wait->places[least & (WAIT_SITES - 1)].memo.uses)
			least = i;
	}
	wait->places[least & (WAIT_SITES - 1)].memo.uses = 0;
	return least;
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

static __always_inline int count_pending(struct wait_site *place, __u32 at, __u32 kind)
{
	struct count *pending = &place->pending[at];

	if (!pending->samples)
		return 0;
	place->key.kind = kind;
	count_one(&place->key, pending->value, pending->samples);
	pending->value = 0;
	pending->samples = 0;
	return 1;
}

/* Count what is pending. Returns how many counts that were. */
static __always_inline int flush_place(struct wait_site *place)
{
	__u64 last = slot_at(place->last_ns);
	int counts;

	if (!place->until_ns)
		return 0;
	place->until_ns = 0;
	place->key.more_slots = last > place->key.slot ? last - place->key.slot : 0;
	counts = count_pending(place, WAIT_BLOCKED, SAMPLE_KIND_OFF_CPU);
	counts += count_pending(place, WAIT_FOR_CPU, SAMPLE_KIND_SCHED_DELAY);
	place->key.more_slots = 0;
	return counts;
}

__attribute__((noinline)) int wait_flush(struct wait_site *place)
{
	return place ? flush_place(place) : 0;
}

static __always_inline int count_interval(struct wait_site *place, __u32 kind, __u64 ns, __u64 slot,
					  __u64 last_slot, __u32 weight)
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
 * What the spell ends with, blocked or waiting, is not over: a bit of the last argument, for a word more
 * in a spell is one on the stack, of which 6.1 has 512 bytes for all that call each other.
 */
#define WAIT_GOES_ON (1U << 31)

/*
 * The last slot of a wait that is so far known up to @end_ns. One that goes on is told up to where that
 * slot begins, for its next part begins there: no slot is in two parts.
 */
static __always_inline __u64 last_slot_of(__u32 goes_on, __u64 end_ns)
{
	return slot_at(end_ns) - (goes_on ? 1 : 0);
}

/*
 * A wait that does not fit into one span has its own counts, and its two parts where they were. Of one that
 * goes on there is one of the two.
 */
static __always_inline int count_long_wait(struct wait_site *place, const struct spell *spell,
					   __u64 from_ns, __u32 weight, __u32 goes_on)
{
	__u64 blocked_ns = spell->ns[THREAD_BLOCKED], waiting_ns = spell->ns[THREAD_RUN_QUEUE];
	__u64 woken_ns = from_ns + blocked_ns;
	int counts = count_interval(place, SAMPLE_KIND_OFF_CPU, blocked_ns, slot_at(from_ns),
				    last_slot_of(goes_on, woken_ns), weight);

	return counts + count_interval(place, SAMPLE_KIND_SCHED_DELAY, waiting_ns,
				       slot_at(woken_ns),
				       last_slot_of(goes_on, woken_ns + waiting_ns), weight);
}

static __always_inline void add_pending(struct wait_site *place, __u32 at, __u64 ns, __u32 weight)
{
	place->pending[at].value += ns * weight;
	place->pending[at].samples += ns ? weight : 0;
}

/*
 * The thread was blocked there and then waited for a CPU, from @from_ns on; it stands for @weight
 * waits. They are added up over 1 << @span_shift slots, with WAIT_GOES_ON if it is not over. Returns how many
 * counts that took.
 */
__attribute__((noinline)) int wait_charge(struct wait_site *place, const struct spell *spell,
					  __u64 from_ns, __u32 weight, __u32 span_shift)
{
	__u32 goes_on = span_shift & WAIT_GOES_ON;
	__u64 end_ns, slot;
	int counts = 0;

	if (!place || !spell)
		return 0;
	end_ns = from_ns + spell->ns[THREAD_BLOCKED] + spell->ns[THREAD_RUN_QUEUE];
	if (goes_on || end_ns >= place->until_ns) {
		counts = flush_place(place);
		slot = slot_at(from_ns);
		place->until_ns =
			(slot + (1ULL << (span_shift & 7))) * slot_ns - shared.realtime_offset_ns;
		place->key.slot = slot;
	}
	if (goes_on || end_ns >= place->until_ns) {
		place->until_ns = 0;
		return counts + count_long_wait(place, spell, from_ns, weight, goes_on);
	}
	add_pending(place, WAIT_BLOCKED, spell->ns[THREAD_BLOCKED], weight);
	add_pending(place, WAIT_FOR_CPU, spell->ns[THREAD_RUN_QUEUE], weight);
	place->last_ns = end_ns;
	return counts;
}

/*
 * A GPU may have waited meanwhile: so much of the time that thread @tid (with WAIT_GOES_ON) was blocked there, and waited
 * for a CPU, is counted for that, too. Before wait_charge(): what is pending is left as it is.
 */
__attribute__((noinline)) int wait_charge_gpu_idle(struct wait_site *place,
						   const struct spell *spell, __u64 from_ns,
						   __u32 weight, __u32 tid)
{
	struct process_key process;
	__u64 end_ns, ns, slot;

	if (!place || !spell)
		return 0;
	process = place->key.process;
	end_ns = from_ns + spell->ns[THREAD_BLOCKED] + spell->ns[THREAD_RUN_QUEUE];
	ns = gpu_idle_of_wait(&process, tid & ~WAIT_GOES_ON, from_ns, end_ns, weight);
	slot = place->key.slot;
	count_interval(place, SAMPLE_KIND_GPU_IDLE, ns, slot_at(from_ns),
		       last_slot_of(tid & WAIT_GOES_ON, end_ns), 1);
	place->key.slot = slot;
	return 0;
}
