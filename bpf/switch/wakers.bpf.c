// SPDX-License-Identifier: GPL-2.0-only
// Off-wake time: when a blocked thread of a --wakers service is woken, the waker's stack is joined with
// the blocked one, and the time is counted under both. The program runs in the waker; the blocked stack
// was captured when the thread lost its CPU (switches.bpf.c).

#include "bpf/kernel.h"
#include "bpf/maps.bpf.h"
#include "bpf/switch/thread.bpf.h"
#include "bpf/switch/unwind_budget.h"
#include "bpf/switch/waker_stack.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * Processes of the --wakers services, by tgid, added by the agent. With --pid all targets are covered
 * instead. A service with more processes has small ones; the agent logs that the rest is left out.
 */
#define WOKEN_PROCESSES_MAX 4096

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WOKEN_PROCESSES_MAX);
	__type(key, __u32);
	__type(value, __u32);
} woken_pids SEC(".maps");

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

/* One per CPU: wake-ups do not nest, as a lock of the woken thread is held. */
struct waker_cpu {
	struct unwind_budget budget;
	struct wake_record record;
	struct stack_cache cache; // always empty
	struct count_key key;     // of the count being made
	struct blocked_time time;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waker_cpu);
} waker_cpus SEC(".maps");

static __always_inline struct waker_cpu *waker_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&waker_cpus, &zero);
}

static __always_inline bool is_profiled(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return only_targets ? bpf_map_lookup_elem(&target_pids, &pid) != NULL
			    : bpf_map_lookup_elem(&woken_pids, &pid) != NULL;
}

/* ---- counting ---------------------------------------------------------------------------------- */

/* @key has the woken thread. */
__attribute__((noinline)) int count_wake(struct count_key *key, const struct stack_hash *joined,
					 const struct blocked_time *time)
{
	__u64 slot, last;

	if (!key || !joined || !time)
		return 0;
	slot = slot_at(time->from_ns);
	last = slot_at(time->to_ns);
	key->user = *joined;
	key->slot = slot;
	key->more_slots = last > slot ? last - slot : 0;
	key->kind = SAMPLE_KIND_OFF_WAKE;
	count_one(key, time->ns, time->weight);
	return 0;
}

/*
 * A timed lock wait is repeated until the lock is released, as Python threads do for the GIL: all of it is
 * due to the waker that releases it. So sleeps that end by a timer are deferred, and join the next sleep if
 * that is at the same site and the thread has hardly run in between. After half a minute they are counted as
 * they are.
 */
#define TIMED_OUT_RUN_NS 5000000ULL
#define TIMED_OUT_MAX_NS 30000000000ULL

/* Futexes only: threads that sleep or poll with a timeout mean to be woken by it. */
#if defined(__TARGET_ARCH_x86)
#define SYSCALL_FUTEX 202

static __always_inline bool waits_for_futex(struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

	return regs->orig_ax == SYSCALL_FUTEX;
}
#else
#define SYSCALL_FUTEX 98

static __always_inline bool waits_for_futex(struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

	return regs->syscallno == SYSCALL_FUTEX;
}
#endif

/* Never 0. */
static __always_inline __u64 wake_site(const struct count_key *blocked)
{
	return (blocked->user.low ^ hash_rotate(blocked->kernel.low, 17)) | 1;
}

static __always_inline void count_timed_out(struct thread_wake *wake, struct count_key *key)
{
	if (wake->timed_out.ns)
		count_wake(key, &wake->timed_out_by, &wake->timed_out);
	wake->timed_out.ns = 0;
}

/*
 * Adds deferred sleeps that this one continues to @time. If the thread has done something else since, they
 * are counted. A short sleep in between, as for a condition variable's mutex, changes nothing.
 */
static __always_inline void resume_timed_out(struct thread_wake *wake, __u64 site,
					     struct blocked_time *time, struct count_key *key)
{
	if (!wake->timed_out.ns)
		return;
	if (time->exec_ns - wake->timed_out.exec_ns > TIMED_OUT_RUN_NS) {
		count_timed_out(wake, key);
		return;
	}
	if (wake->timed_out_site != site)
		return;
	time->from_ns = wake->timed_out.from_ns;
	time->ns += wake->timed_out.ns;
	time->weight += wake->timed_out.weight;
	wake->timed_out.ns = 0;
}

static __always_inline void defer_timed_out(struct thread_wake *wake, __u64 site,
					    const struct stack_hash *joined,
					    const struct blocked_time *time, struct count_key *key)
{
	count_timed_out(wake, key); // of another site
	wake->timed_out_site = site;
	wake->timed_out_by = *joined;
	wake->timed_out = *time;
}

/* ---- wake-ups ---------------------------------------------------------------------------------- */

/* Log2 of this wake-up's weight, given the length of its sleep; below 0: sampled out. */
static __always_inline int wake_shift(struct waker_cpu *cpu, __u64 ns, __u64 now)
{
	__u32 shift = 0;

	budget_at(&cpu->budget, now);
	if (cpu->budget.quantum_ns)
		shift = budget_shift(&cpu->budget, ns, 0);
	shift &= 31; // for the verifier
	return shift && bpf_get_prandom_u32() & ((1U << shift) - 1) ? -1 : (int)shift;
}

static __always_inline void end_of_wait(struct thread *thread, __u64 now, struct blocked_time *time)
{
	struct thread_wake *wake = &thread->wake;
	__u64 weight = thread->wait.weight;

	time->from_ns = wake->asleep_ns;
	time->to_ns = now;
	time->ns = wake->charged_ns + ns_between(thread->time.since_ns, now) * weight;
	time->weight = weight;
	time->exec_ns = thread->time.exec_ns;
	wake->asleep_ns = 0;
}

/*
 * Not inlined, nor is count_or_defer_wake(): their stack frames would count while the waker is unwound.
 * Linux 6.1 rounds each function's stack up to 32 bytes, and allows 512 in all.
 */
static __attribute__((noinline)) bool weigh_wake(struct task_struct *task, struct thread *thread,
						 struct waker_cpu *cpu, __u64 now)
{
	struct wait_site *waits = site_of_wait(&thread->wait);
	struct blocked_time *time = &cpu->time;
	int shift;

	key_of_thread(task, &cpu->key);
	end_of_wait(thread, now, time);
	resume_timed_out(&thread->wake, wake_site(&waits->key), time, &cpu->key);
	shift = wake_shift(cpu, time->ns, now);
	if (shift < 0) {
		count(COUNTER_WAKES_SAMPLED_OUT);
		return false;
	}
	time->ns <<= shift;
	time->weight <<= shift;
	return true;
}

static __attribute__((noinline)) int count_or_defer_wake(struct task_struct *task,
							 struct thread *thread,
							 struct waker_cpu *cpu)
{
	struct wait_site *waits = site_of_wait(&thread->wait);
	struct wake_record *record = &cpu->record;
	struct blocked_time *time = &cpu->time;

	if (record->waker_kind == WAKER_INTERRUPT && is_of_timer(record->waker.kernel_leaf) &&
	    waits_for_futex(task) && time->to_ns - time->from_ns < TIMED_OUT_MAX_NS)
		defer_timed_out(&thread->wake, wake_site(&waits->key), &record->joined, time,
				&cpu->key);
	else
		count_wake(&cpu->key, &record->joined, time);
	return 0;
}

static __always_inline void end_wait(void *ctx, struct task_struct *task, struct thread *thread)
{
	struct switch_stack *stack = switch_stack_of_cpu();
	struct waker_cpu *cpu = waker_cpu();
	__u64 now = bpf_ktime_get_ns();

	if (!stack || !cpu || !weigh_wake(task, thread, cpu, now))
		return;
	capture_kernel_addresses(ctx, stack);
	capture_waker(&cpu->record, &cpu->cache, now);
	join_stacks(&cpu->record, &site_of_wait(&thread->wait)->key, now);
	budget_spend_ns(&cpu->budget, bpf_ktime_get_ns() - now);
	count(COUNTER_WAKES_UNWOUND);
	count_or_defer_wake(task, thread, cpu);
}

/* In the waker's context, before the thread is queued: it does not run meanwhile. */
SEC("tp_btf/sched_waking")
int thread_woken(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct thread *thread;

	if (task->flags & PF_KTHREAD || !is_profiled(task))
		return 0;
	count(COUNTER_WAKES);
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	// A thread on its way to sleep has lost no time yet.
	if (!thread || task->on_cpu || !is_asleep(task))
		return 0;
	if (!wait_lock(&thread->wait))
		return count(COUNTER_WAKES_BUSY);
	if (thread->wake.asleep_ns)
		end_wait(ctx, task, thread);
	wait_unlock(&thread->wait);
	return 0;
}

/* Counts deferred sleeps: the process is no target any more after this. */
SEC("tp_btf/sched_process_exit")
int woken_thread_ends(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);
	struct count_key key = {};

	if (!thread || !thread->wake.timed_out.ns || !wait_lock(&thread->wait))
		return 0;
	key_of_thread(task, &key);
	count_timed_out(&thread->wake, &key);
	wait_unlock(&thread->wait);
	return 0;
}
