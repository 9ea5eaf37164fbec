/* SPDX-License-Identifier: GPL-2.0-only */
// Counts what a thread did since the last report: off-CPU time by stack, and totals of all its time without stacks.
#pragma once

#include "bpf/switch/switch_stack.bpf.h"
#include "bpf/switch/thread_tracking.bpf.h"

static const __u32 kind_of_state[THREAD_STATES] = {
	[THREAD_RUNNING] = SAMPLE_KIND_RUNNING,
	[THREAD_RUN_QUEUE] = SAMPLE_KIND_RUN_QUEUE,
	[THREAD_BLOCKED] = SAMPLE_KIND_BLOCKED,
};

/*
 * Reports what was charged since the last report, as an interval up to the start of slot @end. The next
 * interval starts there, so no slot is in both.
 */
__attribute__((noinline)) int report_totals(struct thread_time *time, struct count_key *key,
					    __u64 end)
{
	__u64 from;

	if (!time || !key)
		return 0;
	from = time->slot;
	time->slot = end;
	key->slot = from < end ? from : end - 1;
	key->more_slots = end - 1 - key->slot;
#pragma unroll
	for (__u32 state = 0; state < THREAD_STATES; state++) {
		__u64 ns = thread_time_report(time, state);

		key->kind = kind_of_state[state];
		if (ns)
			count_one(key, ns, 1);
	}
	return 0;
}

/*
 * The last site at which the thread of @key was preempted, or blocked in the call that all skipped intervals were of. NULL: no
 * user stack is known.
 */
static __always_inline struct wait_site *last_site(struct thread_wait *wait,
						   const struct count_key *key, bool is_preempted)
{
	struct wait_site *last = NULL;

#pragma unroll
	for (__u32 i = 0; i < WAIT_SITES; i++) {
		struct wait_site *site = &wait->sites[i];

		if (site->key.process.pid && site->is_preempted == is_preempted &&
		    (is_preempted || wait->heads[i].call == wait->skipped_call) &&
		    site->key.process.exec_id == key->process.exec_id &&
		    !stack_hash_is_not_sampled(&site->key.user) &&
		    (!last || site->last_ns > last->last_ns))
			last = site;
	}
	return last;
}

/*
 * Counts the time that got no stack since the last report, up to slot @end. Where sampled intervals stand in
 * for it, the agent scales those. Else it goes to the thread's last known stack of the same call, or to none: @unknown
 * has the thread only. Nothing is pending at the sites.
 */
__attribute__((noinline)) int report_skipped(struct thread *thread, struct count_key *unknown,
					     __u64 end, bool is_known)
{
	struct thread_wait *wait;
	__u64 from;

	if (!thread || !unknown)
		return 0;
	wait = &thread->wait;
	from = thread->time.slot;
	if (from >= end)
		from = end - 1;
#pragma unroll
	for (__u32 part = 0; part < SKIPPED_PARTS; part++) {
		__u32 kind = part == SKIPPED_BLOCKED ? WAIT_BLOCKED : WAIT_FOR_CPU;
		__u64 ns = wait->skipped_ns[part];
		struct count_key *key = unknown;
		struct wait_site *site;

		wait->skipped_ns[part] = 0;
		if (!ns || wait->has_sampled & 1 << kind)
			continue;
		site = is_known ? last_site(wait, unknown, part == SKIPPED_PREEMPTED) : NULL;
		if (site)
			key = &site->key;
		key->kind = kind == WAIT_BLOCKED ? SAMPLE_KIND_OFF_CPU : SAMPLE_KIND_SCHED_DELAY;
		key->slot = from;
		key->more_slots = end - 1 - from;
		count_one(key, ns, 1);
		key->more_slots = 0;
	}
	wait->skipped_call = 0;
	wait->has_sampled = 0;
	wait->sampled_groups = 0;
	return 0;
}

static __always_inline void flush_waits(struct thread_wait *wait)
{
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITES; i++)
		wait_flush(&wait->sites[i]);
}

/*
 * Counts what the thread did since the last report, up to slot @end: off-CPU time by stack, and totals. Under
 * the lock, so that both are of the same time. The key lies in @scratch: it does not fit the program's stack.
 */
static __attribute__((noinline)) int report_thread(struct task_struct *task, struct thread *thread,
						   __u64 end, struct switch_stack *scratch)
{
	struct count_key *key = &scratch->totals_key;

	flush_waits(&thread->wait);
	key_of_thread(task, key);
	key->kernel_leaf = 0;
	if (is_kernel_thread(task))
		key->kernel_leaf = TOTALS_WITHOUT_STACKS;
	else
		report_skipped(thread, key, end, !is_stackless(task));
	return report_totals(&thread->time, key, end);
}
