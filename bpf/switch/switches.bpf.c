// SPDX-License-Identifier: GPL-2.0-only
// Wall-clock time of threads. At each context switch the previous thread is charged for all it did since
// its last switch; the agent's sweep charges threads that do not switch. The next thread costs nothing.

#include "bpf/kernel.h"
#include "bpf/maps.bpf.h"
#include "bpf/switch/stack_cache.bpf.h"
#include "bpf/switch/switch_stack.bpf.h"
#include "bpf/switch/thread.bpf.h"
#include "bpf/switch/unwind_budget.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

struct switch_cpu {
	__u64 since_ns;         // the last switch on this CPU
	__u64 running_since_ns; // the one before
	__u64 check_due_ns;     // when a cache hit may be checked again
	struct unwind_budget budget;
};

/* Processes, by tgid, that get no off-CPU stacks: the agent sheds load here. */
#define STACKLESS_MAX 1024

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STACKLESS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} stackless SEC(".maps");

/* Spares a lookup at each switch. */
bool any_stackless = false;

/* Set by the agent at any time: at most one off-CPU interval in 1 << this gets a stack. */
__u32 min_shift = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_cpu);
} switch_cpus SEC(".maps");

/* When tracking began. Set by the agent. */
__u64 tracking_since_ns = 0;

/* Set for a sweep before the other programs are attached: nothing is known of the time before. */
bool restart_tracking = false;

/* Result of the first sweep. */
bool has_run_delay = false;

/* Run-queue time of @task so far, in ns; 0 where the scheduler keeps no such count. */
static __always_inline __u64 run_delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

static __always_inline bool is_profiled(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return pid && (!only_targets || bpf_map_lookup_elem(&target_pids, &pid));
}

/* ---- totals ----------------------------------------------------------------------------------- */

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

static __always_inline bool is_kernel_thread(struct task_struct *task)
{
	return task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER);
}

static __always_inline bool is_stackless(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return any_stackless && bpf_map_lookup_elem(&stackless, &pid);
}

/* The last site at which the thread of @key was preempted, or was not. NULL: no user stack is known. */
static __always_inline struct wait_site *last_site(struct thread_wait *wait,
						   const struct count_key *key, bool is_preempted)
{
	struct wait_site *last = NULL;

#pragma unroll
	for (__u32 i = 0; i < WAIT_SITES; i++) {
		struct wait_site *site = &wait->sites[i];

		if (site->key.process.pid && site->is_preempted == is_preempted &&
		    site->key.process.exec_id == key->process.exec_id &&
		    !stack_hash_is_not_sampled(&site->key.user) &&
		    (!last || site->last_ns > last->last_ns))
			last = site;
	}
	return last;
}

/*
 * Counts the time that got no stack since the last report, up to slot @end. Where sampled intervals stand in
 * for it, the agent scales those. Else it goes to the thread's last known stack, or to none: @unknown has
 * the thread only. Nothing is pending at the sites.
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

/* ---- tracking threads -------------------------------------------------------------------------- */

static __always_inline void track_thread(struct task_struct *task, __u64 since_ns, __u64 delay_ns)
{
	struct thread *thread =
		bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		count(COUNTER_THREADS_DROPPED);
		return;
	}
	if (thread->time.since_ns)
		return;
#pragma unroll
	for (__u32 i = 0; i < WAIT_GROUPS; i++)
		thread->wait.mean_ns[i] = WAIT_FIRST_MEAN_NS;
	thread->time.delay_ns = delay_ns;
	thread->time.exec_ns = since_ns == task->start_time ? 0 : task->se.sum_exec_runtime;
	thread->time.left_as = THREAD_BLOCKED;
	thread->time.slot = slot_at(since_ns);
	thread->time.since_ns = since_ns;
}

/* Threads that started after tracking began are charged from their start. */
static __always_inline void track_late(struct task_struct *task)
{
	if (task->start_time > tracking_since_ns)
		track_thread(task, task->start_time, 0);
	else
		track_thread(task, bpf_ktime_get_ns(), run_delay_of(task));
}

/* Since Linux 6.4 task storage comes from per-CPU free lists, not an allocator. Set before load. */
const volatile bool can_track_at_switches = false;

/*
 * Allocates the thread's state. A switch must not: the run queue is locked and the allocator may wake a
 * thread. The child of a target becomes one at this tracepoint, too. Any other stays untracked, or its exit would
 * report it. Arguments: struct task_struct *parent, struct task_struct *child.
 */
SEC("tp_btf/sched_process_fork")
int track_child(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];

	if (is_profiled(parent))
		track_thread(child, child->start_time, 0);
	return 0;
}

/* ---- off-CPU intervals -------------------------------------------------------------------------- */

static __always_inline bool has_user_stack(struct task_struct *task)
{
	return !is_stackless(task) && task->mm && !is_kernel_thread(task);
}

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
 * Keeps one off-CPU interval of expected length @expected_ns in 1 << shift; its weight stands for those
 * sampled out. Without @budget the shift is @least. Returns 0 if sampled out.
 */
__attribute__((noinline)) int sample_wait(struct thread_wait *wait,
					  const struct unwind_budget *budget, __u64 expected_ns,
					  __u32 least)
{
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
 * One hit in so many is unwound all the same, to count wrong hits. The clock picks it: in a loop each
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
		count(COUNTER_STACK_CACHE_WRONG);
	wait_note_site(wait, wait->call);
	words = stack_cache_words(&site->cache);
	if (wait->words < words)
		wait->words = words;
	wait->has_python |= site->cache.python.state != 0;
	return true;
}

/* ---- switches --------------------------------------------------------------------------------- */

/*
 * The time of the capture is not part of the interval: a kept interval would be longer than those that it
 * stands for. It counts as running, as the thread had the CPU.
 */
__attribute__((noinline)) int exclude_capture_time(struct switch_cpu *cpu, struct thread_time *time,
						   __u64 now, bool is_unwound)
{
	__u64 end = bpf_ktime_get_ns();

	if (!cpu || !time)
		return 0;
	if (is_unwound)
		budget_spend_ns(&cpu->budget, end - now);
	else
		budget_compare_ns(&cpu->budget, end - now);
	cpu->since_ns = end;
	time->since_ns = end; // nobody else does: we hold the lock
	time->switched_ns[THREAD_RUNNING] += end - now;
	time->swept_compared_ns -= end - now;
	return 0;
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

/* Returns false if the interval needs no stack. */
static __always_inline bool begin_wait(void *ctx, struct switch_cpu *cpu, struct task_struct *task,
				       struct thread *thread, __u64 now)
{
	struct switch_stack *stack = switch_stack_of_cpu();
	struct thread_wait *wait = &thread->wait;
	bool is_unwound = false;
	int found;

	wait->weight = 0;
	wait->is_by_call = 0;
	wait->call = 0;
	if (!stack)
		return false;
	if (task->__state == TASK_DEAD) {
		report_thread(task, thread, slot_at(now) + 1, stack);
		return false;
	}
	wait->group = thread->time.left_as == THREAD_BLOCKED;
	if (!has_user_stack(task))
		return false;
	budget_at(&cpu->budget, now);
	found = sample_and_find_site(ctx, cpu, stack, task, thread, now);
	if (wait->is_by_call)
		follow_name(site_of_wait(wait));
	else if (wait->weight)
		is_unwound = capture_site(ctx, cpu, stack, wait, found, now);
	if (is_unwound || stack->context.python.of.state)
		exclude_capture_time(cpu, &thread->time, now, is_unwound);
	return wait->weight != 0;
}

/* Not inlined: its words would be on the stack beside those of the capture. */
__attribute__((noinline)) int end_wait(struct switch_cpu *cpu, struct thread_wait *wait,
				       __u64 from_ns, const struct thread_interval *interval,
				       __u32 tid)
{
	__u64 ns, capped_ns;
	__u32 *mean_ns;

	if (!cpu || !wait || !interval)
		return 0;
	ns = interval->ns[THREAD_BLOCKED] + interval->ns[THREAD_RUN_QUEUE];
	capped_ns = ns < WAIT_MEAN_NS_MAX ? ns : WAIT_MEAN_NS_MAX;
	mean_ns = mean_of_wait(wait);
	if (!ns)
		return 0;
	*mean_ns += (__u32)capped_ns / 4 - *mean_ns / 4;
	if (!wait->weight) {
		wait_skip(wait, interval);
		return 0;
	}
	if (from_ns < shared.gpu_idle_until_ns)
		wait_charge_gpu_idle(site_of_wait(wait), from_ns, cpu->running_since_ns,
				     wait->weight, tid);
	wait_note_weight(wait, interval, wait->weight);
	budget_count(&cpu->budget, wait_charge(site_of_wait(wait), interval, from_ns, wait->weight,
					       cpu->budget.span_shift));
	return 0;
}

/* The stack is known now; the thread may be woken. */
static __always_inline void begin_sleep(struct thread *thread, __u64 now)
{
	thread->wake.charged_ns = 0;
	thread->wake.asleep_ns = thread->time.left_as == THREAD_BLOCKED ? now : 0;
}

/* Corrects @interval and adds it to the totals. */
static __always_inline void add_interval(struct thread_time *time, struct thread_interval *interval,
					 __u64 exec_ns)
{
	__u64 swept_ns = time->swept_ns[THREAD_RUNNING];
	__u64 left_ns = thread_interval_settle(interval, swept_ns - time->swept_compared_ns,
					       ns_between(time->exec_ns, exec_ns));

	time->exec_ns = exec_ns;
	time->swept_compared_ns = swept_ns - left_ns;
	time->switched_ns[THREAD_RUNNING] += interval->ns[THREAD_RUNNING];
	time->switched_ns[THREAD_RUN_QUEUE] += interval->ns[THREAD_RUN_QUEUE];
	time->switched_ns[THREAD_BLOCKED] += interval->ns[THREAD_BLOCKED];
}

/* Runs while the previous thread is still current. */
static __always_inline int switch_out(void *ctx, bool preempted)
{
	__u64 now = bpf_ktime_get_ns(), since_ns, delay_ns;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_time *time;
	struct switch_cpu *cpu;
	struct thread *thread;
	struct thread_interval interval;
	__u32 zero = 0, left_as;

	cpu = bpf_map_lookup_elem(&switch_cpus, &zero);
	if (!cpu)
		return 0;
	cpu->running_since_ns = cpu->since_ns;
	cpu->since_ns = now;
	if (!is_profiled(task))
		return 0;
	count(COUNTER_SWITCHES);
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	// In a burst of forks the free lists may be empty for a moment.
	if (!thread && can_track_at_switches) {
		track_late(task);
		thread = bpf_task_storage_get(&threads, task, NULL, 0);
	}
	if (!thread || !thread->time.since_ns)
		return count(COUNTER_SWITCHES_UNTRACKED);

	time = &thread->time;
	since_ns = __sync_lock_test_and_set(&time->since_ns, now);
	delay_ns = run_delay_of(task);
	left_as = time->left_as;
	// Volatile: the program has no room on its stack to keep it.
	interval = thread_interval_of(since_ns, now, *(volatile __u64 *)&cpu->running_since_ns,
				      ns_between(time->delay_ns, delay_ns), left_as);
	time->delay_ns = delay_ns;
	add_interval(time, &interval, task->se.sum_exec_runtime);
	// On older kernels the tracepoint's prev_state is read before a pending signal clears it.
	time->left_as = preempted || !task->__state ? THREAD_RUN_QUEUE : THREAD_BLOCKED;
	thread->wake.asleep_ns = 0;
	if (!wait_lock(&thread->wait)) {
		thread->wait.weight = 0;
		return count(COUNTER_OFF_CPU_BUSY);
	}
	end_wait(cpu, &thread->wait, since_ns, &interval, task->pid);
	if (begin_wait(ctx, cpu, task, thread, now))
		begin_sleep(thread, time->since_ns);
	wait_unlock(&thread->wait);
	return 0;
}

/*
 * Arguments: bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state.
 * Only the first is read.
 */
SEC("tp_btf/sched_switch")
int switch_threads(__u64 *ctx)
{
	return switch_out(ctx, ctx[0]);
}

SEC("raw_tp/sched_switch")
int switch_threads_raw(__u64 *ctx)
{
	return switch_out(ctx, ctx[0]);
}

/* ---- the sweep -------------------------------------------------------------------------------- */

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

/*
 * A parent may learn of the exit before the thread's last switch and ask for counts at once, and the
 * process is no target any more by then: so charge here. Arguments: struct task_struct *p
 */
SEC("tp_btf/sched_process_exit")
int end_thread(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct switch_stack *stack = switch_stack_of_cpu(); // no switch comes between

	if (!stack || !thread || !thread->time.since_ns || !wait_lock(&thread->wait))
		return 0;
	sweep_time(task, thread);
	report_thread(task, thread, slot_at(bpf_ktime_get_ns()) + 1, stack);
	wait_unlock(&thread->wait);
	return 0;
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

static __always_inline void untrack_thread(struct thread *thread)
{
	thread->time.since_ns = 0;
	thread->time.swept_compared_ns = thread->time.swept_ns[THREAD_RUNNING];
	thread->wait.weight = 0;
	thread->wake.asleep_ns = 0;
}

/* Sleepable: task storage for all threads may be allocated. */
SEC("iter.s/task")
int sweep_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct switch_stack *stack;
	struct thread *thread;
	__u32 zero = 0;

	has_run_delay = bpf_core_field_exists(task->sched_info.run_delay);

	if (!task || !is_profiled(task) || task->exit_state)
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (thread && restart_tracking)
		untrack_thread(thread);
	if (!thread || restart_tracking) {
		track_late(task);
		thread = bpf_task_storage_get(&threads, task, NULL, 0);
	}
	if (!thread)
		return 0;
	stack = bpf_map_lookup_elem(&swept_stack, &zero);
	if (!stack)
		return 0;
	sweep_thread(task, thread, stack);
	return 0;
}
