/* SPDX-License-Identifier: GPL-2.0-only */
// Draws which off-CPU intervals get a stack, finds the interval's wait site by its caches, and else captures the stack.
#pragma once

#include "bpf/switch/switch_cpu.bpf.h"
#include "bpf/switch/switch_stack.bpf.h"
#include "bpf/switch/thread.bpf.h"

/* Set by the agent at any time: at most one short off-CPU interval in 1 << this gets a stack; budget_shed_shift(). */
__u32 min_shift = 0;

/*
 * An interval that is sampled out gets the stack that the thread had last in the same system call with the same
 * arguments, unless kept ones of its group stand in for it: those of other calls must not. While counts are what costs too
 * much, it is not counted. False: there is no such stack.
 */
static __always_inline bool take_site_of_call(struct thread_wait *wait,
					      const struct unwind_budget *budget)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	int site;

	if ((budget && budget->samples_hits) ||
	    wait->sampled_groups & 1U << (wait->group & (WAIT_GROUPS - 1)))
		return false;
	site = wait_site_of_call(wait, (__u32)leader->self_exec_id);
	if (site < 0)
		return false;
	wait->site = (__u32)site;
	wait->is_by_call = 1;
	return true;
}

/*
 * Keeps one off-CPU interval of expected length @expected_ns in 1 << shift; it has the weight of those
 * sampled out. Without @budget the shift is that of the governor's @step. Returns 0 if sampled out.
 */
__attribute__((noinline)) int sample_wait(struct thread_wait *wait,
					  const struct unwind_budget *budget, __u64 expected_ns,
					  __u32 step)
{
	// A thread's first interval in a call may be a short one: short-lived processes have no others.
	__u32 least = budget_shed_shift(step, expected_ns == WAIT_FIRST_MEAN_NS ? 0 : expected_ns);
	__u32 shift = budget ? budget_shift(budget, expected_ns, least) : least;

	if (!wait)
		return 0;
	// Until it is cached, a site that was sampled out stays so.
	if (budget && wait->has_room)
		shift = shift < 2 * least ? least : shift / 2;
	shift &= 15; // for the verifier
	if (shift && bpf_get_prandom_u32() & ((1U << shift) - 1)) {
		if (take_site_of_call(wait, budget))
			return count(COUNTER_OFF_CPU_BY_CALL);
		wait->weight = 0;
		return count(COUNTER_OFF_CPU_SAMPLED_OUT);
	}
	wait->weight <<= shift;
	return 1;
}

static __always_inline bool is_same_stack(const struct count_key *a, const struct count_key *b)
{
	return a->user.low == b->user.low && a->user.high == b->user.high &&
	       a->kernel.low == b->kernel.low && a->kernel.high == b->kernel.high &&
	       a->user_leaf.address == b->user_leaf.address && a->kernel_leaf == b->kernel_leaf;
}

/* A thread may have got another name since its stack was captured. */
__attribute__((noinline)) int follow_name(struct wait_site *site)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const __u64 *name = (const __u64 *)task->comm, *known;

	if (!site)
		return 0;
	known = (const __u64 *)site->key.thread_name;
	if (name[0] == known[0] && name[1] == known[1])
		return 0;
	wait_flush(site);
	bpf_probe_read_kernel(site->key.thread_name, sizeof(site->key.thread_name), task->comm);
	return 0;
}

/* Unwinds the stack; kernel addresses are captured. If the site held another one, its pending counts are flushed. */
static __always_inline bool unwind_wait(struct switch_cpu *cpu, struct switch_stack *stack,
					struct wait_site *site, __u64 now)
{
	bool is_same;

	capture_stack(&site->cache, now);
	is_same = is_same_stack(&stack->key, &site->key);
	follow_name(site);
	if (!is_same) {
		budget_count(&cpu->budget, wait_flush(site));
		site->key = stack->key;
	}
	count(COUNTER_OFF_CPU_UNWOUND);
	return is_same;
}

/*
 * One hit in so many is unwound all the same, to count stale hits. The clock picks it: in a loop each
 * 64th interval may be at the same site.
 */
#define STACK_CACHE_CHECK_EVERY 64
/* Checks are also limited by time per CPU: they would use most of the budget. */
#define STACK_CACHE_CHECK_NS 5000000ULL

/* The site whose cache matches, or -1. */
static __always_inline int find_site(struct switch_stack *stack, struct task_struct *task,
				     struct thread_wait *wait, __u64 now)
{
	struct task_struct *leader = task->group_leader;

	if (!stack->context.call)
		return -1;
	return wait_find_site(wait, &stack->context, now, (__u32)leader->self_exec_id);
}

static __always_inline bool should_check_cache(struct switch_cpu *cpu, struct stack_cache *cache,
					       __u64 now)
{
	// A truncated stack may be complete by now, and its cache expires soon.
	if (cache->is_truncated || (now * HASH_C1 >> 40) % STACK_CACHE_CHECK_EVERY ||
	    now < cpu->check_due_ns)
		return false;
	cpu->check_due_ns = now + STACK_CACHE_CHECK_NS;
	count(COUNTER_STACK_CACHE_CHECKED);
	return true;
}

/*
 * Over budget, too, a cache that matches in user space only is captured again: it may compare a copy of the kernel's
 * return address, and miss each time. So is one that has expired: soon, if the stack was truncated, as those of a
 * program that has just begun are. As often as hits are checked.
 */
static __always_inline bool may_mend_cache(struct switch_cpu *cpu, const struct thread_wait *wait,
					   __u64 now)
{
	if (!wait->near || now < cpu->check_due_ns)
		return false;
	cpu->check_due_ns = now + STACK_CACHE_CHECK_NS;
	return true;
}

/* Is the address, if there is one, among the nearest kernel return addresses that were captured? */
__attribute__((noinline)) int is_in_kernel_stack(const struct switch_stack *stack,
						 const struct kernel_return *at)
{
	if (!stack || !at)
		return 0;
	for (__u32 i = 0; i < SCHEDULER_FRAMES; i++)
		if (stack->kernel.at[i] == at->address)
			return 1;
	return !at->address;
}

/*
 * The site that wait->near says, if the thread blocks at its place in the kernel, too: the cache compared a copy of the
 * return address, and the capture looks for another. -1: it is another place.
 */
__attribute__((noinline)) int near_site(const struct thread_wait *wait,
					const struct switch_stack *stack)
{
	const struct stack_cache *cache;

	if (!wait || !stack || !wait->near)
		return -1;
	cache = &wait->sites[(wait->near - 1) & (WAIT_SITES - 1)].cache;
	for (__u32 i = 0; i < STACK_CACHE_KERNEL_RETURNS; i++)
		if (!is_in_kernel_stack(stack, &cache->kernel[i]))
			return -1;
	return (int)(wait->near - 1);
}

/* The site for a stack that no cache has; kernel addresses are captured. */
__attribute__((noinline)) int site_of_miss(struct thread_wait *wait,
					   const struct switch_stack *stack)
{
	int near = near_site(wait, stack);

	if (!wait || !stack || !stack->context.call)
		return WAIT_SITE_OTHER;
	return near >= 0 ? near : (int)wait_evict_site(wait);
}

/*
 * Sets the wait site and captures its stack unless the cache hit (@found). Returns whether it unwound.
 */
static __always_inline bool capture_site(void *ctx, struct switch_cpu *cpu,
					 struct switch_stack *stack, struct thread_wait *wait,
					 int found, __u64 now)
{
	struct wait_site *site;
	__u32 words;

	if (found >= 0) {
		wait->site = (__u32)found;
		site = site_of_wait(wait);
		site->is_preempted = !wait->group;
		count(COUNTER_STACK_CACHE_HITS);
		site->cache.uses++;
		follow_name(site);
		if (!should_check_cache(cpu, &site->cache, now))
			return false;
	}
	capture_kernel_addresses(ctx, stack);
	if (found < 0)
		wait->site = (__u32)site_of_miss(wait, stack);
	site = site_of_wait(wait);
	site->is_preempted = !wait->group;
	if (!unwind_wait(cpu, stack, site, now) && found >= 0)
		count(COUNTER_STACK_CACHE_STALE);
	wait_note_site(wait, wait->call);
	words = stack_cache_words(&site->cache);
	if (wait->words < words)
		wait->words = words;
	wait->has_python |= site->cache.python.state != 0;
	return true;
}

/*
 * Decides whether to keep the interval (wait->weight). Returns as find_site(). Over budget, cache hits are
 * kept without sampling, unless comparing them with Python frames, or counting them, is too much by itself.
 */
static __always_inline int sample_and_find_site(void *ctx, struct switch_cpu *cpu,
						struct switch_stack *stack,
						struct task_struct *task, struct thread *thread,
						__u64 now)
{
	struct thread_wait *wait = &thread->wait;
	__u64 mean_ns;
	bool are_many = cpu->budget.quantum_ns;
	bool is_looked_at = are_many && wait->has_python && cpu->budget.samples_compares;
	int found;

	read_switch_context(&stack->context, task);
	stack->context.kernel_at = (__u64)ctx;
	wait_note_call(wait, &stack->context, thread->time.left_as);
	mean_ns = *mean_of_wait(wait);
	wait->weight = 1;
	wait->has_room = 0;
	wait->near = 0;
	if ((is_looked_at || min_shift) &&
	    !sample_wait(wait, is_looked_at ? &cpu->budget : NULL, mean_ns, min_shift))
		return -1;
	found = find_site(stack, task, wait, now);
	if (are_many && !is_looked_at && (found < 0 || cpu->budget.samples_hits) &&
	    !may_mend_cache(cpu, wait, now))
		sample_wait(wait, &cpu->budget, mean_ns, 0);
	return found;
}
