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
	struct stack_cache cache;
};

/* A thread that goes round a loop waits in a few places in turn. A power of two. */
#define WAIT_SITES 4
/* The last is for waits outside of system calls, which have no cache. */
#define WAIT_SITE_OTHER (WAIT_SITES - 1)

/*
 * Waits are alike that are of the same system call, on the same thing: a thread that passes a lock a thousand times
 * and then sleeps is not likely to sleep as shortly. The first are those for a CPU.
 */
#define WAIT_GROUPS      32 // two kinds fall together with a chance of 1/31
#define WAIT_MEAN_NS_MAX 4000000000ULL

/* Kept for each thread. Who has the lock may touch it; nobody waits for the lock. */
struct thread_wait {
	__u32 lock;
	__u32 weight;     // of the wait that began with the last switch; 0: it was not chosen
	__u32 site;       // of that wait, if it was chosen
	__u32 words;      // of the stack that the memos compare at most
	__u32 has_python; // stacks of this thread that were remembered had Python frames
	__u32 group;      // which waits the one that began with the last switch is like
	// Of sleepers.bpf.c, whose passes have numbers.
	__u32 tries;                // that have not given a whole stack
	__u32 due_in_pass;          // the next one
	__u32 mean_ns[WAIT_GROUPS]; // mean length of the last of each, up to the maximum
	struct wait_site sites[WAIT_SITES];
};

#define WAIT_FIRST_MEAN_NS 100000000ULL // a thread's first waits are likely to be chosen

static __always_inline bool wait_lock(struct thread_wait *wait)
{
	return __sync_bool_compare_and_swap(&wait->lock, 0, 1);
}

static __always_inline void wait_unlock(struct thread_wait *wait)
{
	__sync_lock_test_and_set(&wait->lock, 0); // in this order, on every processor
}

/* Which of the thread's waits the one that begins there is like: enum thread_state says how it begins. */
static __always_inline __u32 wait_group(const struct switch_context *context, __u32 left_as)
{
	__u64 hash = context->call * HASH_C1;

	return left_as == THREAD_BLOCKED ? 1 + (__u32)((hash >> 32) * (WAIT_GROUPS - 1) >> 32) : 0;
}

static __always_inline __u32 *mean_of_wait(struct thread_wait *wait)
{
	return &wait->mean_ns[wait->group & (WAIT_GROUPS - 1)];
}

static __always_inline __u64 slot_at(__u64 monotonic_ns)
{
	return (monotonic_ns + shared.realtime_offset_ns) / slot_ns;
}

/* The place where the current thread stands, or -1: none of its memos fits. */
__attribute__((noinline)) int wait_find_site(struct thread_wait *wait,
					     struct switch_context *context, __u64 now,
					     __u32 exec_id)
{
	if (!wait || !context || !read_stack_words(context, wait->words))
		return -1;
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		if (stack_cache_matches(&wait->sites[i].cache, context, exec_id, now))
			return i;
	}
	return -1;
}

/*
 * The place to give up for one that is not remembered. Where a thread was preempted it will not be
 * again: that must not drive out where it waits each time.
 */
static __always_inline __u32 wait_evict_site(struct thread_wait *wait)
{
	__u32 least = 0;

#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		struct stack_cache *cache = &wait->sites[i].cache;

		cache->uses -= cache->uses / 4;
		if (cache->uses < wait->sites[least & (WAIT_SITES - 1)].cache.uses)
			least = i;
	}
	wait->sites[least & (WAIT_SITES - 1)].cache.uses = 0;
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

static __always_inline int count_pending(struct wait_site *site, __u32 at, __u32 kind)
{
	struct count *pending = &site->pending[at];

	if (!pending->samples)
		return 0;
	site->key.kind = kind;
	count_one(&site->key, pending->value, pending->samples);
	pending->value = 0;
	pending->samples = 0;
	return 1;
}

/* Count what is pending. Returns how many counts that were. */
static __always_inline int flush_site(struct wait_site *site)
{
	__u64 last = slot_at(site->last_ns);
	int counts;

	if (!site->until_ns)
		return 0;
	site->until_ns = 0;
	site->key.more_slots = last > site->key.slot ? last - site->key.slot : 0;
	counts = count_pending(site, WAIT_BLOCKED, SAMPLE_KIND_OFF_CPU);
	counts += count_pending(site, WAIT_FOR_CPU, SAMPLE_KIND_SCHED_DELAY);
	site->key.more_slots = 0;
	return counts;
}

__attribute__((noinline)) int wait_flush(struct wait_site *site)
{
	return site ? flush_site(site) : 0;
}

static __always_inline int count_interval(struct wait_site *site, __u32 kind, __u64 ns, __u64 slot,
					  __u64 last_slot, __u32 weight)
{
	if (!ns)
		return 0;
	site->key.kind = kind;
	site->key.slot = slot;
	site->key.more_slots = last_slot > slot ? last_slot - slot : 0;
	count_one(&site->key, ns * weight, weight);
	site->key.more_slots = 0;
	return 1;
}

/*
 * What the spell ends with, blocked or waiting, is not over: a bit of the last argument, for a word more
 * in a spell is one on the stack, of which 6.1 has 512 bytes for all that call each other.
 */
#define WAIT_UNFINISHED (1U << 31)

/*
 * The last slot of a wait that is so far known up to @end_ns. One that goes on is told up to where that
 * slot begins, for its next part begins there: no slot is in two parts.
 */
static __always_inline __u64 last_slot_of(__u32 unfinished, __u64 end_ns)
{
	return slot_at(end_ns) - (unfinished ? 1 : 0);
}

/*
 * A wait that does not fit into one span has its own counts, and its two parts where they were. Of one that
 * goes on there is one of the two.
 */
static __always_inline int count_long_wait(struct wait_site *site,
					   const struct thread_interval *interval, __u64 from_ns,
					   __u32 weight, __u32 unfinished)
{
	__u64 blocked_ns = interval->ns[THREAD_BLOCKED],
	      waiting_ns = interval->ns[THREAD_RUN_QUEUE];
	__u64 woken_ns = from_ns + blocked_ns;
	int counts = count_interval(site, SAMPLE_KIND_OFF_CPU, blocked_ns, slot_at(from_ns),
				    last_slot_of(unfinished, woken_ns), weight);

	return counts + count_interval(site, SAMPLE_KIND_SCHED_DELAY, waiting_ns, slot_at(woken_ns),
				       last_slot_of(unfinished, woken_ns + waiting_ns), weight);
}

static __always_inline void add_pending(struct wait_site *site, __u32 at, __u64 ns, __u32 weight)
{
	site->pending[at].value += ns * weight;
	site->pending[at].samples += ns ? weight : 0;
}

/*
 * The thread was blocked there and then waited for a CPU, from @from_ns on; it stands for @weight
 * waits. They are added up over 1 << @span_shift slots, with WAIT_UNFINISHED if it is not over. Returns how many
 * counts that took.
 */
__attribute__((noinline)) int wait_charge(struct wait_site *site,
					  const struct thread_interval *interval, __u64 from_ns,
					  __u32 weight, __u32 span_shift)
{
	__u32 unfinished = span_shift & WAIT_UNFINISHED;
	__u64 end_ns, slot;
	int counts = 0;

	if (!site || !interval)
		return 0;
	end_ns = from_ns + interval->ns[THREAD_BLOCKED] + interval->ns[THREAD_RUN_QUEUE];
	if (unfinished || end_ns >= site->until_ns) {
		counts = flush_site(site);
		slot = slot_at(from_ns);
		site->until_ns =
			(slot + (1ULL << (span_shift & 7))) * slot_ns - shared.realtime_offset_ns;
		site->key.slot = slot;
	}
	if (unfinished || end_ns >= site->until_ns) {
		site->until_ns = 0;
		return counts + count_long_wait(site, interval, from_ns, weight, unfinished);
	}
	add_pending(site, WAIT_BLOCKED, interval->ns[THREAD_BLOCKED], weight);
	add_pending(site, WAIT_FOR_CPU, interval->ns[THREAD_RUN_QUEUE], weight);
	site->last_ns = end_ns;
	return counts;
}

/*
 * A GPU may have waited meanwhile: so much of the time that thread @tid (with WAIT_UNFINISHED) was blocked there, and waited
 * for a CPU, is counted for that, too. Before wait_charge(): what is pending is left as it is.
 */
__attribute__((noinline)) int wait_charge_gpu_idle(struct wait_site *site,
						   const struct thread_interval *interval,
						   __u64 from_ns, __u32 weight, __u32 tid)
{
	struct process_key process;
	__u64 end_ns, ns, slot;

	if (!site || !interval)
		return 0;
	process = site->key.process;
	end_ns = from_ns + interval->ns[THREAD_BLOCKED] + interval->ns[THREAD_RUN_QUEUE];
	ns = gpu_idle_of_wait(&process, tid & ~WAIT_UNFINISHED, from_ns, end_ns, weight);
	slot = site->key.slot;
	count_interval(site, SAMPLE_KIND_GPU_IDLE, ns, slot_at(from_ns),
		       last_slot_of(tid & WAIT_UNFINISHED, end_ns), 1);
	site->key.slot = slot;
	return 0;
}
