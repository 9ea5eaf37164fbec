// SPDX-License-Identifier: GPL-2.0-only
// The wall clock of threads. At each context switch the thread that loses its CPU is accounted for
// what it did since it lost it the last time; a sweep by the agent accounts for threads that do not
// switch. Nothing is done for the thread that comes next.

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

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter__task {
	struct task_struct *task;
};

#pragma clang attribute pop

struct switch_cpu {
	__u64 since_ns;     // when it got its thread: the last switch, whoever came
	__u64 check_due_ns; // when a memo may be checked again
	struct unwind_budget budget;
};

/* Processes, by tgid, whose waits get no stacks: the agent's governor puts the dearest there. */
#define STACKLESS_MAX 1024

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STACKLESS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} stackless SEC(".maps");

/* Whether there are any: most of the time there are none. */
bool any_stackless = false;

/* Set by the agent at any time: of the waits no more than one in 1 << this gets a stack. */
__u32 min_shift = 0;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_cpu);
} switch_cpus SEC(".maps");

/* When the accounting began. Set by the agent. */
__u64 tracking_since_ns = 0;

/* Set by the agent for a sweep before it attaches the others: nothing is known of what was before. */
bool restart_tracking = false;

/* Told to the agent by the first sweep. */
bool has_run_delay = false;

/* Nanoseconds that the scheduler counted @task to be runnable so far; 0 where it does not count. */
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
 * Tell the agent what was accounted since the last time, as an interval up to where slot @end begins:
 * the next one begins there, and no slot is in both.
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

/* The key lies in @scratch, for the stack of a program is small. */
static __always_inline void report_thread(struct task_struct *task, struct thread *thread,
					  __u64 end, struct switch_stack *scratch)
{
	struct count_key *key = &scratch->totals_key;

	key_of_thread(task, key);
	report_totals(&thread->time, key, end);
}

/* ---- new threads ------------------------------------------------------------------------------ */

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

/* Threads that are younger than the accounting are accounted from their start on. */
static __always_inline void track_late(struct task_struct *task)
{
	if (task->start_time > tracking_since_ns)
		track_thread(task, task->start_time, 0);
	else
		track_thread(task, bpf_ktime_get_ns(), run_delay_of(task));
}

/* Since Linux 6.4 memory of task storage comes from lists that need no allocator. Set before load. */
const volatile bool can_track_at_switches = false;

/*
 * Where the memory is had: at a switch it may not be, for the allocator may want to wake somebody, and
 * the run queue is locked. Arguments: struct task_struct *parent, struct task_struct *child.
 */
SEC("tp_btf/sched_process_fork")
int track_child(__u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];

	track_thread(child, child->start_time, 0);
	return 0;
}

/* ---- waits ------------------------------------------------------------------------------------- */

static __always_inline bool has_user_stack(struct task_struct *task)
{
	__u32 pid = task->tgid;

	if (any_stackless && bpf_map_lookup_elem(&stackless, &pid))
		return false;
	return task->mm && !(task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER));
}

/*
 * Of waits that are likely to take @expected_ns, so many as are chosen at all, one in some is chosen, and
 * stands for the others. With @budget NULL, one in 1 << @least.
 */
__attribute__((noinline)) int sample_wait(struct thread_wait *wait,
					  const struct unwind_budget *budget, __u64 expected_ns,
					  __u32 least)
{
	__u32 shift = budget ? budget_shift(budget, expected_ns, least) : least;

	if (!wait)
		return 0;
	shift &= 15; // for the verifier
	if (shift && bpf_get_prandom_u32() & ((1U << shift) - 1)) {
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

/* Take the stack anew; what is pending for another one is counted. */
static __always_inline bool unwind_wait(void *ctx, struct switch_cpu *cpu,
					struct switch_stack *stack, struct wait_site *site,
					__u64 now)
{
	bool is_same;

	capture_kernel_addresses(ctx, stack);
	capture_stack(&site->cache, now);
	is_same = is_same_stack(&stack->key, &site->key);
	if (!is_same) {
		budget_count(&cpu->budget, wait_flush(site));
		site->key = stack->key;
	}
	count(COUNTER_OFF_CPU_UNWOUND);
	return is_same;
}

/*
 * Of so many hits one is unwound all the same, to know how often the memo is wrong. Which, the clock
 * decides: each 64th wait of a loop may be the same one.
 */
#define STACK_CACHE_CHECK_EVERY 64
/* But no more often on a CPU than this: it would be most of its budget. */
#define STACK_CACHE_CHECK_NS 5000000ULL

/* Which of the places the thread stands at, or -1: none. */
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
	// A cut stack may be whole by now, and is taken anew soon.
	if (cache->is_truncated || (now * HASH_C1 >> 40) % STACK_CACHE_CHECK_EVERY ||
	    now < cpu->check_due_ns)
		return false;
	cpu->check_due_ns = now + STACK_CACHE_CHECK_NS;
	count(COUNTER_STACK_CACHE_CHECKED);
	return true;
}

/*
 * Set the place of the wait that begins, which was @found or not, and take its stack. Returns false if
 * that took no time: it is remembered, and has no Python frames, which were looked at.
 */
static __always_inline bool capture_site(void *ctx, struct switch_cpu *cpu,
					 struct switch_stack *stack, struct thread_wait *wait,
					 int found, __u64 now)
{
	struct wait_site *site;
	__u32 words;

	if (found >= 0)
		wait->site = (__u32)found;
	else
		wait->site = stack->context.call ? wait_evict_site(wait) : WAIT_SITE_OTHER;
	site = site_of_wait(wait);
	if (found >= 0) {
		count(COUNTER_STACK_CACHE_HITS);
		site->cache.uses++;
		if (!should_check_cache(cpu, &site->cache, now))
			return site->cache.python.state != 0;
	}
	if (!unwind_wait(ctx, cpu, stack, site, now) && found >= 0)
		count(COUNTER_STACK_CACHE_WRONG);
	words = stack_cache_words(&site->cache);
	if (wait->words < words)
		wait->words = words;
	wait->has_python |= site->cache.python.state != 0;
	return true;
}

static __always_inline void flush_waits(struct thread_wait *wait)
{
#pragma unroll
	for (__u32 i = 0; i < WAIT_SITES; i++)
		wait_flush(&wait->sites[i]);
}

/* ---- switches --------------------------------------------------------------------------------- */

/*
 * What taking a stack took is no part of the wait: a wait that was chosen would be longer than those
 * it stands for. The thread had the CPU.
 */
static __always_inline void exclude_capture_time(struct switch_cpu *cpu, struct thread_time *time,
						 __u64 now)
{
	__u64 end = bpf_ktime_get_ns();

	budget_spend_ns(&cpu->budget, end - now);
	cpu->since_ns = end;
	time->since_ns = end; // nobody else does: the lock is ours
	time->switched_ns[THREAD_RUNNING] += end - now;
	time->swept_compared_ns -= end - now;
}

/*
 * Choose the wait, or not: its weight tells. Returns as find_site(). While there are too many, those
 * that are remembered need not be fewer, except where looking for that costs, too.
 */
static __always_inline int sample_and_find_site(void *ctx, struct switch_cpu *cpu,
						struct switch_stack *stack,
						struct task_struct *task, struct thread *thread,
						__u64 now)
{
	struct thread_wait *wait = &thread->wait;
	__u64 mean_ns;
	bool are_many = cpu->budget.quantum_ns;
	bool is_looked_at = are_many && wait->has_python;
	int found;

	read_switch_context(&stack->context, task);
	stack->context.kernel_at = (__u64)ctx;
	wait->group = wait_group(&stack->context, thread->time.left_as);
	mean_ns = *mean_of_wait(wait);
	wait->weight = 1;
	if ((is_looked_at || min_shift) &&
	    !sample_wait(wait, is_looked_at ? &cpu->budget : NULL, mean_ns, min_shift))
		return -1;
	found = find_site(stack, task, wait, now);
	if (are_many && !is_looked_at && (found < 0 || budget_is_for_all(&cpu->budget)))
		sample_wait(wait, &cpu->budget, mean_ns, 0);
	return found;
}

/* The wait that begins now: returns false if nothing is to be done for it. */
static __always_inline bool begin_wait(void *ctx, struct switch_cpu *cpu, struct task_struct *task,
				       struct thread *thread, __u64 now)
{
	struct switch_stack *stack = switch_stack_of_cpu();
	struct thread_wait *wait = &thread->wait;
	int found;

	wait->weight = 0;
	if (!stack)
		return false;
	if (task->__state == TASK_DEAD) {
		flush_waits(wait);
		report_thread(task, thread, slot_at(now) + 1, stack);
		return false;
	}
	if (!has_user_stack(task))
		return false;
	budget_at(&cpu->budget, now);
	found = sample_and_find_site(ctx, cpu, stack, task, thread, now);
	if (!wait->weight)
		return false;
	if (capture_site(ctx, cpu, stack, wait, found, now))
		exclude_capture_time(cpu, &thread->time, now);
	return true;
}

static __always_inline void end_wait(struct switch_cpu *cpu, struct thread_wait *wait,
				     __u64 from_ns, const struct thread_interval *interval,
				     __u32 tid)
{
	__u64 ns = interval->ns[THREAD_BLOCKED] + interval->ns[THREAD_RUN_QUEUE];
	__u64 capped_ns = ns < WAIT_MEAN_NS_MAX ? ns : WAIT_MEAN_NS_MAX;
	__u32 *mean_ns = mean_of_wait(wait);

	if (!ns)
		return;
	*mean_ns += (__u32)capped_ns / 4 - *mean_ns / 4;
	if (wait->weight && from_ns < shared.gpu_idle_until_ns)
		wait_charge_gpu_idle(site_of_wait(wait), interval, from_ns, wait->weight, tid);
	if (wait->weight)
		budget_count(&cpu->budget, wait_charge(site_of_wait(wait), interval, from_ns,
						       wait->weight, cpu->budget.span_shift));
}

/* From here on somebody may wake it, and the stack of its wait is known. */
static __always_inline void begin_sleep(struct thread *thread, __u64 now)
{
	thread->wake.charged_ns = 0;
	thread->wake.asleep_ns = thread->time.left_as == THREAD_BLOCKED ? now : 0;
}

static __always_inline void add_interval(struct thread_time *time, struct thread_interval interval,
					 __u64 exec_ns)
{
	__u64 swept_ns = time->swept_ns[THREAD_RUNNING];
	__u64 left_ns = thread_interval_settle(&interval, swept_ns - time->swept_compared_ns,
					       ns_between(time->exec_ns, exec_ns));

	time->exec_ns = exec_ns;
	time->swept_compared_ns = swept_ns - left_ns;
	time->switched_ns[THREAD_RUNNING] += interval.ns[THREAD_RUNNING];
	time->switched_ns[THREAD_RUN_QUEUE] += interval.ns[THREAD_RUN_QUEUE];
	time->switched_ns[THREAD_BLOCKED] += interval.ns[THREAD_BLOCKED];
}

/* The thread that loses its CPU is still the current one. */
static __always_inline int switch_out(void *ctx, bool preempted)
{
	__u64 now = bpf_ktime_get_ns(), running_since_ns, since_ns, delay_ns;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_time *time;
	struct switch_cpu *cpu;
	struct thread *thread;
	struct thread_interval interval;
	__u32 zero = 0, left_as;

	cpu = bpf_map_lookup_elem(&switch_cpus, &zero);
	if (!cpu)
		return 0;
	running_since_ns = cpu->since_ns;
	cpu->since_ns = now;
	if (!is_profiled(task))
		return 0;
	count(COUNTER_SWITCHES);
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	// At a burst of forks their lists may be empty for a moment.
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
	interval = thread_interval_of(since_ns, now, running_since_ns,
				      ns_between(time->delay_ns, delay_ns), left_as);
	time->delay_ns = delay_ns;
	add_interval(time, interval, task->se.sum_exec_runtime);
	// The tracepoint's own state is that of before a signal was noticed, on older kernels.
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
 * Arguments, of which only the first is read: bool preempt, struct task_struct *prev,
 * struct task_struct *next, unsigned int prev_state
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

/* Set by the agent before each sweep: totals are told up to where this slot begins. */
__u64 sweep_slot = 0;

/* Account what the thread has done up to now. If it switches meanwhile, it has done so itself. */
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
		return; // of a wait that goes on whole slots are told
	}
	interval = thread_interval_of(since_ns, now, running_since_ns,
				      ns_between(time->delay_ns, delay_ns), time->left_as);
	if (!__sync_bool_compare_and_swap(&time->since_ns, since_ns, now))
		return;
	time->delay_ns = delay_ns;
	time->swept_ns[THREAD_RUNNING] += interval.ns[THREAD_RUNNING];
	time->swept_ns[THREAD_RUN_QUEUE] += interval.ns[THREAD_RUN_QUEUE];
	time->swept_ns[THREAD_BLOCKED] += interval.ns[THREAD_BLOCKED];
	if (wait->weight) {
		thread->wake.charged_ns += interval.ns[THREAD_BLOCKED] * wait->weight;
		if (since_ns < shared.gpu_idle_until_ns)
			wait_charge_gpu_idle(site_of_wait(wait), &interval, since_ns, wait->weight,
					     (__u32)task->pid | unfinished);
		wait_charge(site_of_wait(wait), &interval, since_ns, wait->weight, unfinished);
	}
}

/*
 * A thread ends. Who waits for its process hears of that before the thread's last switch, and may ask
 * for the counts at once; nor is the process followed any more by then. Arguments: struct task_struct *p
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
	flush_waits(&thread->wait);
	wait_unlock(&thread->wait);
	report_thread(task, thread, slot_at(bpf_ktime_get_ns()) + 1, stack);
	return 0;
}

/* One sweep runs at a time; it may be interrupted by switches, which have their own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_stack);
} swept_stack SEC(".maps");

/*
 * A wait that has lasted until a sweep stands for itself from then on, chosen or not. Of one that was
 * not, or began before us, only the kernel's part of the stack is taken here: the user's is left to
 * sleepers.bpf.c.
 */
static __always_inline void sweep_stack(struct task_struct *task, struct thread *thread)
{
	__u64 since_ns = *(volatile __u64 *)&thread->time.since_ns;
	struct thread_wait *wait = &thread->wait;
	struct wait_site *site = &wait->sites[WAIT_SITE_OTHER];
	struct switch_stack *stack;
	__u32 zero = 0;
	long size;

	if (thread->time.left_as != THREAD_BLOCKED || task->on_cpu || !is_asleep(task) ||
	    !has_user_stack(task))
		return;
	if (wait->weight) {
		wait->weight = 1;
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
	capture_kernel_stack(stack, bpf_ktime_get_ns());
	site->key = stack->key;
	wait->site = WAIT_SITE_OTHER;
	count(COUNTER_OFF_CPU_SWEPT);
	// It may have switched meanwhile, and gone without the lock.
	if (*(volatile __u64 *)&thread->time.since_ns == since_ns) {
		wait->weight = 1;
		begin_sleep(thread, since_ns);
	}
}

/* A switch that finds the lock taken goes on without it, and a sweep leaves the thread to its switch. */
static __always_inline void sweep_thread(struct task_struct *task, struct thread *thread)
{
	if (!wait_lock(&thread->wait))
		return;
	sweep_time(task, thread);
	sweep_stack(task, thread);
	flush_waits(&thread->wait);
	wait_unlock(&thread->wait);
}

static __always_inline void untrack_thread(struct thread *thread)
{
	thread->time.since_ns = 0;
	thread->time.swept_compared_ns = thread->time.swept_ns[THREAD_RUNNING];
	thread->wait.weight = 0;
	thread->wake.asleep_ns = 0;
}

/* Sleepable, so that there is memory for all threads at once. */
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
	sweep_thread(task, thread);
	stack = bpf_map_lookup_elem(&swept_stack, &zero);
	if (stack)
		report_thread(task, thread, sweep_slot, stack);
	return 0;
}
