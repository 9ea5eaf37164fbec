/* SPDX-License-Identifier: GPL-2.0-only */
// The agent's sweep: charges threads that do not switch, and gives those that sleep a stack.
#pragma once

#include "bpf/switch/switch_cpu.bpf.h"
#include "bpf/switch/switch_stack.bpf.h"
#include "bpf/switch/thread_report.bpf.h"
#include "bpf/switch/thread_tracking.bpf.h"

/* Set for a sweep before the other programs are attached: nothing is known of the time before. */
bool restart_tracking = false;

/* Result of the first sweep. */
bool has_run_delay = false;

/* Set by the agent before each sweep: totals are reported up to the start of this slot. */
__u64 sweep_slot = 0;

/* Charges the thread up to now. If it switches meanwhile, its switch has charged it. */
static __always_inline void sweep_time(struct task_struct *task, struct thread *thread)
{
	struct thread_wait *wait = &thread->wait;
	struct thread_time *time = &thread->time;
	__u64 since_ns = *(volatile __u64 *)&time->since_ns, now, running_since_ns, delay_ns;
	__u32 unfinished = task->on_cpu ? 0 : WAIT_UNFINISHED;
	struct switch_cpu *cpu;
	struct thread_interval interval;
	__u32 zero = 0;

	running_since_ns = now = bpf_ktime_get_ns();
	delay_ns = time->delay_ns;
	if (!unfinished) {
		cpu = bpf_map_lookup_percpu_elem(&switch_cpus, &zero, task->thread_info.cpu);
		if (!cpu)
			return;
		running_since_ns = *(volatile __u64 *)&cpu->since_ns;
		delay_ns = run_delay_of(task);
	} else if (slot_at(since_ns) == slot_at(now) ||
		   (time->left_as == THREAD_BLOCKED && !is_asleep(task))) {
		return; // unfinished intervals are charged in whole slots
	}
	interval = thread_interval_of(since_ns, now, running_since_ns,
				      ns_between(time->delay_ns, delay_ns), time->left_as);
	if (!__sync_bool_compare_and_swap(&time->since_ns, since_ns, now))
		return;
	time->delay_ns = delay_ns;
	time->swept_ns[THREAD_RUNNING] += interval.ns[THREAD_RUNNING];
	time->swept_ns[THREAD_RUN_QUEUE] += interval.ns[THREAD_RUN_QUEUE];
	time->swept_ns[THREAD_BLOCKED] += interval.ns[THREAD_BLOCKED];
	if (!wait->weight) {
		wait_skip(wait, &interval);
	} else {
		thread->wake.charged_ns += interval.ns[THREAD_BLOCKED] * wait->weight;
		if (since_ns < shared.gpu_idle_until_ns)
			wait_charge_gpu_idle(site_of_wait(wait), since_ns,
					     since_ns + interval.ns[THREAD_BLOCKED] +
						     interval.ns[THREAD_RUN_QUEUE],
					     wait->weight, (__u32)task->pid | unfinished);
		wait_note_weight(wait, &interval, wait->weight);
		wait_charge(site_of_wait(wait), &interval, since_ns, wait->weight, unfinished);
	}
}

/* One sweep runs at a time; switches that interrupt it have their own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_stack);
} swept_stack SEC(".maps");

/* So long an interval keeps the stack that its call had last. */
#define BY_CALL_NS_MAX 2000000000ULL

/* A stack whose record found the ring full stays unknown for as long as the thread sleeps. */
static __always_inline bool is_lost(const struct stack_hash *hash)
{
	return (hash->low || hash->high) && !stack_is_sent(hash);
}

/* Does the present interval need a stack of its own by now? */
static __always_inline bool needs_swept_stack(struct thread *thread, __u64 now)
{
	if (!thread->wait.weight || is_lost(&site_of_wait(&thread->wait)->key.kernel))
		return true;
	return thread->wait.is_by_call && thread->wake.asleep_ns &&
	       now - thread->wake.asleep_ns > BY_CALL_NS_MAX;
}

/*
 * An off-CPU interval that lasts until a sweep is kept whole, with weight 1: its length is known, and no
 * other stands in for it. If it was sampled out or began before tracking, only the kernel stack is captured
 * here; sleepers.bpf.c adds the user stack. Until then it has the user stack of its call, or is marked as not sampled.
 */
static __always_inline void sweep_stack(struct task_struct *task, struct thread *thread)
{
	__u64 since_ns = *(volatile __u64 *)&thread->time.since_ns;
	struct thread_wait *wait = &thread->wait;
	struct wait_site *site = &wait->sites[WAIT_SITE_OTHER];
	__u64 now = bpf_ktime_get_ns();
	struct switch_stack *stack;
	__u32 zero = 0;
	int of_call_at;
	long size;

	if (thread->time.left_as != THREAD_BLOCKED || task->on_cpu || !is_asleep(task) ||
	    !has_user_stack(task))
		return;
	if (!needs_swept_stack(thread, now)) {
		wait->weight = 1;
		if (is_lost(&site_of_wait(wait)->key.user) &&
		    !site_of_wait(wait)->cache.is_truncated) {
			site_of_wait(wait)->cache.is_truncated = 1;
			truncated_stacks++;
		}
		return;
	}
	stack = bpf_map_lookup_elem(&swept_stack, &zero);
	if (!stack)
		return;
	wait_flush(site);
	stack_cache_clear(&site->cache);
	site->cache.is_truncated = 1;
	truncated_stacks++;
	key_of_thread(task, &stack->key);
	size = bpf_get_task_stack(task, stack->kernel.at,
				  KERNEL_DEPTH_MAX * sizeof(stack->kernel.at[0]), 0);
	stack->kernel_depth = size > 0 ? (__u32)size / sizeof(stack->kernel.at[0]) : 0;
	capture_kernel_stack(stack, now);
	of_call_at = wait_site_of_call(wait, stack->key.process.exec_id);
	if (of_call_at >= 0) {
		stack->key.user = wait->sites[of_call_at & (WAIT_SITES - 1)].key.user;
		stack->key.user_leaf = wait->sites[of_call_at & (WAIT_SITES - 1)].key.user_leaf;
	} else {
		stack->key.user = stack_hash_not_sampled();
		stack->key.user_leaf = (struct raw_frame){};
	}
	site->key = stack->key;
	site->is_preempted = false;
	wait->site = WAIT_SITE_OTHER;
	wait_note_site(wait, 0);
	count(COUNTER_OFF_CPU_SWEPT);
	// The thread may have switched meanwhile, without the lock.
	if (*(volatile __u64 *)&thread->time.since_ns == since_ns) {
		if (!wait->is_by_call) // else its sleep has begun
			begin_sleep(thread, since_ns);
		wait->weight = 1;
		wait->is_by_call = 0;
	}
}

/* Nobody waits for the lock: a switch goes on without it, a sweep leaves the thread to its switch. */
static __always_inline void sweep_thread(struct task_struct *task, struct thread *thread,
					 struct switch_stack *scratch)
{
	if (!wait_lock(&thread->wait))
		return;
	sweep_stack(task, thread);
	sweep_time(task, thread);
	report_thread(task, thread, sweep_slot, scratch);
	wait_unlock(&thread->wait);
}
