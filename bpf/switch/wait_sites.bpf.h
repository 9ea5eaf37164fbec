/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A thread's off-CPU intervals by wait site. Intervals of one site within a span of slots are added up
// beside the thread, and counted when site or span changes.
//
// Functions that are not inlined are verified once, not for each path that leads to them. They take
// pointers only, which the verifier wants to see checked for NULL.
#pragma once

#include "bpf/add_count.bpf.h"
#include "bpf/gpu/gpu_idle.bpf.h"
#include "bpf/switch/stack_cache.bpf.h"
#include "bpf/switch/thread_time.h"

/* How the thread lost its CPU: the lowest bit of enum thread_state, a bound for the verifier. */
enum wait_kind {
	WAIT_BLOCKED = THREAD_BLOCKED & 1,
	WAIT_FOR_CPU = THREAD_RUN_QUEUE & 1,
	WAIT_KINDS,
};

/* Pending counts of a site: of intervals with weight 1, then of those with more. */
#define WAIT_SAMPLED (1 * WAIT_KINDS)
#define WAIT_PENDING (2 * WAIT_KINDS)

/* A stack that a thread blocks at, the cache that recognizes it, and its pending counts. */
struct wait_site {
	struct count_key key; // slot: the first one pending
	__u64 until_ns;       // end of the span; 0: nothing is pending
	__u64 last_ns;        // end of its last interval
	struct count pending[WAIT_PENDING];
	__u64 is_preempted; // the thread did not block: it was runnable
	struct stack_cache cache;
};

/*
 * What tells most off-CPU intervals from those of a site. The sites of a thread are some twenty cache lines, which other
 * threads have evicted by the next switch; these are two for all of them. wait_note_site() renews it after each capture.
 */
struct wait_site_head {
	__u64 sp;          // of the cache
	__u64 cached_call; // of the cache; 0: it is empty
	__u64 room_from_ns; // from then on it may be replaced: it has expired. Truncated stacks: never
	__u32 call; // call_of_wait() that the thread blocks in here; 0: none, or no user stack
	__u32 pad;
};

/* A thread in a loop blocks at a few sites in turn. A power of two. */
#define WAIT_SITES 4
/* The last one is for switches outside of system calls, which are not cached. */
#define WAIT_SITE_OTHER (WAIT_SITES - 1)

/*
 * Expected lengths are kept by group: same system call, same arguments. A thread that takes a lock a thousand
 * times and then sleeps will not sleep as briefly. Group 0 is preemption.
 */
#define WAIT_GROUPS      32 // two calls share a group with a chance of 1/31
#define WAIT_MEAN_NS_MAX 4000000000ULL

/* Off-CPU time without a stack of its own: sampled out. By what the stacks in its stead have to be. */
enum wait_skipped {
	SKIPPED_BLOCKED,
	SKIPPED_RUN_QUEUE, // after it was blocked
	SKIPPED_PREEMPTED,
	SKIPPED_PARTS,
};

/* For the holder of the lock; nobody waits for it. */
struct thread_wait {
	__u32 lock;
	__u32 weight;      // of the present off-CPU interval; 0: sampled out
	__u32 site;        // of the present one, if it is kept
	__u32 words;       // of the stack: the most that a cache compares
	__u32 has_python;  // a cached stack of this thread has Python frames
	__u32 group;       // of the present off-CPU interval
	__u32 tries;       // of sleepers.bpf.c that gave no complete stack
	__u32 due_in_pass; // number of the next pass that tries
	__u32 has_sampled; // bits (1 << enum wait_kind): weights above 1 were charged since the last report
	__u32 sampled_groups; // bits (1 << group) of those
	__u32 has_room;       // a cache is empty or has expired: one capture may save many
	__u32 near;       // 1 + the site that matches in user space only, or has expired; 0: none
	__u32 call;       // call_of_wait() of the present one; 0: none
	__u32 is_by_call; // the present one was sampled out: its site is the last one of its call
	__u32 skipped_call; // call_of_wait() of all blocked intervals in skipped_ns; 0: none; WAIT_CALLS: not one
	__u32 pad;
	__u64 sp;                        // the user's, in the present one
	__u64 skipped_ns[SKIPPED_PARTS]; // since the last report
	struct wait_site_head heads[WAIT_SITES];
	__u32 mean_ns[WAIT_GROUPS]; // moving average of each group's length, capped
	struct wait_site sites[WAIT_SITES];
};

#define WAIT_FIRST_MEAN_NS 100000000ULL // a thread's first interval in a call is likely to be kept

/* Of several calls, or of none. call_of_wait() is odd. */
#define WAIT_CALLS 2

static __always_inline bool wait_lock(struct thread_wait *wait)
{
	return __sync_bool_compare_and_swap(&wait->lock, 0, 1);
}

static __always_inline void wait_unlock(struct thread_wait *wait)
{
	__sync_lock_test_and_set(&wait->lock, 0); // a full barrier on every architecture
}

/* The group of an interval that begins with @context, @left_as. */
static __always_inline __u32 wait_group(const struct switch_context *context, __u32 left_as)
{
	__u64 hash = context->call * HASH_C1;

	return left_as == THREAD_BLOCKED ? 1 + (__u32)((hash >> 32) * (WAIT_GROUPS - 1) >> 32) : 0;
}

/* System call and arguments of an interval that begins with @context; 0: the thread does not block in one. */
static __always_inline __u32 call_of_wait(const struct switch_context *context, __u32 left_as)
{
	return left_as == THREAD_BLOCKED && context->call
		       ? (__u32)(context->call * HASH_C1 >> 32) | 1
		       : 0;
}

/* Where the interval that begins with @context blocks. */
__attribute__((noinline)) int wait_note_call(struct thread_wait *wait,
					     const struct switch_context *context, __u32 left_as)
{
	if (!wait || !context)
		return 0;
	wait->group = wait_group(context, left_as);
	wait->call = call_of_wait(context, left_as);
	wait->sp = context->sp;
	return 0;
}

static __always_inline __u32 *mean_of_wait(struct thread_wait *wait)
{
	return &wait->mean_ns[wait->group & (WAIT_GROUPS - 1)];
}

static __always_inline __u64 slot_at(__u64 monotonic_ns)
{
	return (monotonic_ns + shared.realtime_offset_ns) / slot_ns;
}

/* After each change of the cache of wait->site. */
__attribute__((noinline)) int wait_note_site(struct thread_wait *wait, __u32 call)
{
	const struct stack_cache *cache;
	struct wait_site_head *head;
	__u32 at;

	if (!wait)
		return 0;
	at = *(volatile __u32 *)&wait->site & (WAIT_SITES - 1);
	cache = &wait->sites[at].cache;
	head = &wait->heads[at];
	head->sp = cache->sp;
	head->cached_call = cache->until_ns ? cache->call : 0;
	// It is cached for too short a time.
	head->room_from_ns = cache->is_truncated ? ~0ULL : cache->until_ns;
	head->call = call;
	return 0;
}

/* May the site's cache match? */
static __always_inline bool wait_head_matches(const struct wait_site_head *head,
					      const struct switch_context *context)
{
	return head->sp == context->sp && head->cached_call == context->call;
}

/* The site whose cache matches the current thread, or -1: then wait->near may. */
__attribute__((noinline)) int wait_find_site(struct thread_wait *wait,
					     struct switch_context *context, __u64 now,
					     __u32 exec_id)
{
	bool may_match = false;

	if (!wait || !context)
		return -1;
	wait->near = 0;
	wait->has_room = 0;
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		if (wait->heads[i].room_from_ns <= now)
			wait->has_room = 1;
		may_match |= wait_head_matches(&wait->heads[i], context);
	}
	if (!may_match)
		return -1;
	if (!read_stack_words(context, wait->words)) {
		wait->has_room = 0;
		return -1;
	}
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		if (!wait_head_matches(&wait->heads[i], context) ||
		    !stack_cache_matches(&wait->sites[i].cache, context, exec_id))
			continue;
		if (wait->sites[i].cache.until_ns > now &&
		    kernel_returns_match(&wait->sites[i].cache, context)) {
			wait->near = 0;
			return i;
		}
		wait->near = i + 1;
	}
	return -1;
}

/*
 * The last site at which the process of @exec_id blocked in the present call, with the same arguments; -1: none. Of several
 * such sites, one as deep in the user's stack: two sleeps of a loop have the same arguments.
 */
__attribute__((noinline)) int wait_site_of_call(const struct thread_wait *wait, __u32 exec_id)
{
	bool found_as_deep = false;
	__u64 last_ns = 0;
	int found = -1;

	if (!wait || !wait->call)
		return -1;
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITES; i++) {
		const struct wait_site *site = &wait->sites[i];
		bool is_as_deep = wait->heads[i].sp == wait->sp;

		if (wait->heads[i].call != wait->call || site->key.process.exec_id != exec_id ||
		    is_as_deep < found_as_deep ||
		    (is_as_deep == found_as_deep && site->last_ns < last_ns))
			continue;
		found_as_deep = is_as_deep;
		last_ns = site->last_ns;
		found = i;
	}
	return found;
}

/*
 * The site to evict for a new one: an empty one, else the one with the fewest uses. A thread that blocks at two sites
 * in turn has no use of either before both are cached. Of as few uses, one of the same call: a call that blocks at many
 * places in the kernel leaves others a stack, which sampled-out intervals have. Preemption hits random places: it must not evict the sites at
 * which a thread blocks in its loop, which would be sampled out then under load. So it evicts those of preemption only,
 * and others once their uses have decayed; in a loop of preemptions they do.
 */
static __always_inline __u32 wait_evict_site(struct thread_wait *wait)
{
	__u32 least = 0, least_rank = ~0U, decay = wait->group ? 4 : 16;
	struct wait_site *site;

#pragma unroll
	for (__u32 i = 0; i < WAIT_SITE_OTHER; i++) {
		struct stack_cache *cache = &wait->sites[i].cache;
		__u32 rank;

		cache->uses -= (cache->uses + decay - 1) / decay;
		rank = cache->until_ns ? 1 + 2 * cache->uses : 0;
		if (rank && wait->heads[i].call != wait->call)
			rank++;
		if (rank < least_rank) {
			least_rank = rank;
			least = i;
		}
	}
	site = &wait->sites[least & (WAIT_SITES - 1)];
	if (!wait->group && !site->is_preempted && site->cache.uses)
		return WAIT_SITE_OTHER;
	site->cache.uses = 0;
	return least;
}

/* As add_count(). Copies the key: older kernels accept map keys on the stack only. */
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

/* Returns how many counts were added. */
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
	counts += count_pending(site, WAIT_SAMPLED + WAIT_BLOCKED, SAMPLE_KIND_OFF_CPU_SAMPLED);
	counts += count_pending(site, WAIT_SAMPLED + WAIT_FOR_CPU, SAMPLE_KIND_SCHED_DELAY_SAMPLED);
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
 * The interval's last part is unfinished. A bit of the last argument: one more word in the struct would be
 * one more on the BPF stack, and 6.1 allows 512 bytes for all functions that call each other.
 */
#define WAIT_UNFINISHED (1U << 31)

/*
 * The last slot of an interval known up to @end_ns. An unfinished one ends before that slot: its next part
 * starts there, so no slot is in two parts.
 */
static __always_inline __u64 last_slot_of(__u32 unfinished, __u64 end_ns)
{
	return slot_at(end_ns) - (unfinished ? 1 : 0);
}

/* An interval longer than the span gets its own counts: first blocked, then in the run queue. */
static __always_inline int count_long_wait(struct wait_site *site,
					   const struct thread_interval *interval, __u64 from_ns,
					   __u32 weight, __u32 unfinished)
{
	__u64 blocked_ns = interval->ns[THREAD_BLOCKED],
	      waiting_ns = interval->ns[THREAD_RUN_QUEUE];
	__u64 woken_ns = from_ns + blocked_ns;
	bool is_sampled = weight > 1;
	int counts = count_interval(
		site, is_sampled ? SAMPLE_KIND_OFF_CPU_SAMPLED : SAMPLE_KIND_OFF_CPU, blocked_ns,
		slot_at(from_ns), last_slot_of(unfinished, woken_ns), weight);

	return counts + count_interval(site,
				       is_sampled ? SAMPLE_KIND_SCHED_DELAY_SAMPLED
						  : SAMPLE_KIND_SCHED_DELAY,
				       waiting_ns, slot_at(woken_ns),
				       last_slot_of(unfinished, woken_ns + waiting_ns), weight);
}

static __always_inline void add_pending(struct wait_site *site, __u32 at, __u64 ns, __u32 weight)
{
	site->pending[at].value += ns * weight;
	site->pending[at].samples += ns ? weight : 0;
}

/*
 * Charges an interval from @from_ns on: blocked, then in the run queue, with @weight. It is added up over
 * 1 << @span_shift slots, with WAIT_UNFINISHED if it goes on. Returns how many counts were added.
 */
__attribute__((noinline)) int wait_charge(struct wait_site *site,
					  const struct thread_interval *interval, __u64 from_ns,
					  __u32 weight, __u32 span_shift)
{
	__u32 unfinished = span_shift & WAIT_UNFINISHED, sampled;
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
	site->last_ns = end_ns;
	if (unfinished || end_ns >= site->until_ns) {
		site->until_ns = 0;
		return counts + count_long_wait(site, interval, from_ns, weight, unfinished);
	}
	sampled = weight > 1 ? WAIT_SAMPLED : 0;
	add_pending(site, sampled + WAIT_BLOCKED, interval->ns[THREAD_BLOCKED], weight);
	add_pending(site, sampled + WAIT_FOR_CPU, interval->ns[THREAD_RUN_QUEUE], weight);
	return counts;
}

/* An interval was charged with @weight. */
static __always_inline void wait_note_weight(struct thread_wait *wait,
					     const struct thread_interval *interval, __u32 weight)
{
	if (weight <= 1)
		return;
	if (interval->ns[THREAD_BLOCKED])
		wait->has_sampled |= 1 << WAIT_BLOCKED;
	if (interval->ns[THREAD_RUN_QUEUE])
		wait->has_sampled |= 1 << WAIT_FOR_CPU;
	wait->sampled_groups |= 1U << (wait->group & (WAIT_GROUPS - 1));
}

/* The time of an interval that has no stack of its own. */
static __always_inline void wait_skip(struct thread_wait *wait,
				      const struct thread_interval *interval)
{
	__u32 call = wait->call ? wait->call : WAIT_CALLS;

	wait->skipped_ns[SKIPPED_BLOCKED] += interval->ns[THREAD_BLOCKED];
	if (!wait->group) {
		wait->skipped_ns[SKIPPED_PREEMPTED] += interval->ns[THREAD_RUN_QUEUE];
		return;
	}
	wait->skipped_ns[SKIPPED_RUN_QUEUE] += interval->ns[THREAD_RUN_QUEUE];
	if (wait->skipped_call && wait->skipped_call != call)
		call = WAIT_CALLS;
	wait->skipped_call = call;
}

/*
 * If a GPU was idle while thread @tid (with WAIT_UNFINISHED) had no CPU, charges that part of the time to GPU idle
 * time, too. Not to the end of the corrected interval: that may be later, when the thread ran. Call it before
 * wait_charge(): it leaves pending counts as they are.
 */
__attribute__((noinline)) int wait_charge_gpu_idle(struct wait_site *site, __u64 from_ns,
						   __u64 end_ns, __u32 weight, __u32 tid)
{
	struct process_key process;
	__u64 ns, slot;

	if (!site || end_ns <= from_ns)
		return 0;
	process = site->key.process;
	ns = gpu_idle_of_wait(&process, tid & ~WAIT_UNFINISHED, from_ns, end_ns, weight);
	slot = site->key.slot;
	count_interval(site, SAMPLE_KIND_GPU_IDLE, ns, slot_at(from_ns),
		       last_slot_of(tid & WAIT_UNFINISHED, end_ns), 1);
	site->key.slot = slot;
	return 0;
}
