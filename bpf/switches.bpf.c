// SPDX-License-Identifier: GPL-2.0-only
// The wall clock of threads. At each context switch the thread that loses its CPU is accounted for
// what it did since it lost it the last time; a sweep by the agent accounts for threads that do not
// switch. Nothing is done for the thread that comes next.

#include "add_count.bpf.h"
#include "kernel.h"
#include "maps.bpf.h"
#include "thread_time.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter__task {
	struct task_struct *task;
};

#pragma clang attribute pop

/* Since when each CPU has its thread. Not reset: it is of the last switch, whoever came. */
struct switch_cpu {
	__u64 since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_cpu);
} switch_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_time);
} threads SEC(".maps");

static __always_inline __u64 slot_at(__u64 monotonic_ns)
{
	return (monotonic_ns + realtime_offset_ns) / slot_ns;
}

/* Nanoseconds that the scheduler counted @task to be runnable so far; 0 where it does not count. */
static __always_inline __u64 run_delay_of(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

static __always_inline bool is_asked_for(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return pid && (!only_followed || bpf_map_lookup_elem(&followed, &pid));
}

/* ---- totals ----------------------------------------------------------------------------------- */

static const __u32 kind_of_state[THREAD_STATES] = {
	[THREAD_RUNNING] = SAMPLE_KIND_RUNNING,
	[THREAD_WAITING] = SAMPLE_KIND_WAITING,
	[THREAD_BLOCKED] = SAMPLE_KIND_BLOCKED,
};

static __always_inline void key_of_thread(struct task_struct *task, struct count_key *key)
{
	struct task_struct *leader = task->group_leader;

	key->process.pid = task->tgid;
	key->process.exec_id = leader->self_exec_id;
	key->process.start_ns = leader->start_boottime;
	bpf_probe_read_kernel(key->thread_name, sizeof(key->thread_name), task->comm);
}

/* Tell the agent what was accounted since the last time, as an interval up to @slot. */
static __always_inline void tell_totals(struct task_struct *task, struct thread_time *thread,
					__u64 slot)
{
	struct count_key key = {};
	__u64 from = thread->slot;

	// A sweep may meet a thread at its end: one of the two tells.
	if (!__sync_bool_compare_and_swap(&thread->slot, from, slot))
		return;
	key_of_thread(task, &key);
	key.slot = from < slot ? from : slot;
	key.more_slots = slot - key.slot;
#pragma unroll
	for (__u32 state = 0; state < THREAD_STATES; state++) {
		__u64 sum_ns = thread->switched_ns[state] + thread->swept_ns[state];
		__u64 ns = sum_ns - thread->told_ns[state];

		thread->told_ns[state] = sum_ns;
		key.kind = kind_of_state[state];
		if (ns)
			add_count(&key, ns, 1);
	}
}

/* ---- new threads ------------------------------------------------------------------------------ */

static __always_inline void begin_thread(struct task_struct *task, __u64 since_ns, __u64 delay_ns)
{
	struct thread_time *thread =
		bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		count(COUNTER_THREADS_FULL);
		return;
	}
	if (thread->since_ns)
		return;
	thread->delay_ns = delay_ns;
	thread->left_as = THREAD_BLOCKED;
	thread->slot = slot_at(since_ns);
	thread->since_ns = since_ns;
}

/*
 * Where the memory is had: at a switch it may not be, for the allocator may want to wake somebody, and
 * the run queue is locked. Arguments: struct task_struct *parent, struct task_struct *child.
 */
SEC("tp_btf/sched_process_fork")
int begin_child(__u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];

	begin_thread(child, child->start_time, 0);
	return 0;
}

/* ---- switches --------------------------------------------------------------------------------- */

/* The thread that loses its CPU is still the current one. */
static __always_inline int switch_out(bool preempted)
{
	__u64 now = bpf_ktime_get_ns(), running_since_ns, since_ns, delay_ns;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_time *thread;
	struct switch_cpu *cpu;
	struct spell spell;
	__u32 zero = 0;

	cpu = bpf_map_lookup_elem(&switch_cpus, &zero);
	if (!cpu)
		return 0;
	running_since_ns = cpu->since_ns;
	cpu->since_ns = now;
	if (!is_asked_for(task))
		return 0;
	count(COUNTER_SWITCHES);
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread || !thread->since_ns)
		return count(COUNTER_SWITCHES_UNKNOWN);

	since_ns = __sync_lock_test_and_set(&thread->since_ns, now);
	delay_ns = run_delay_of(task);
	spell = spell_of(since_ns, now, running_since_ns, ns_between(thread->delay_ns, delay_ns),
			 thread->left_as);
	thread->delay_ns = delay_ns;
	thread->switched_ns[THREAD_RUNNING] += spell.ns[THREAD_RUNNING];
	thread->switched_ns[THREAD_WAITING] += spell.ns[THREAD_WAITING];
	thread->switched_ns[THREAD_BLOCKED] += spell.ns[THREAD_BLOCKED];
	// The tracepoint's own state is that of before a signal was noticed, on older kernels.
	thread->left_as = preempted || !task->__state ? THREAD_WAITING : THREAD_BLOCKED;
	if (task->__state == TASK_DEAD)
		tell_totals(task, thread, slot_at(now));
	return 0;
}

/*
 * Arguments, of which only the first is read: bool preempt, struct task_struct *prev,
 * struct task_struct *next, unsigned int prev_state
 */
SEC("tp_btf/sched_switch")
int switch_threads(__u64 *ctx)
{
	return switch_out(ctx[0]);
}

SEC("raw_tp/sched_switch")
int switch_threads_raw(__u64 *ctx)
{
	return switch_out(ctx[0]);
}

/* ---- the sweep -------------------------------------------------------------------------------- */

/* Set by the agent before each sweep: totals are told up to here. */
__u64 sweep_slot = 0;
/* When the accounting began: threads that are younger are accounted from their start on. */
__u64 begun_ns = 0;

/* For a thread that sleeps no time passes but its wait; a queued one is better left alone. */
static __always_inline bool is_asleep(struct task_struct *task)
{
	if (!task->on_rq)
		return true;
	return bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed;
}

/* Account what the thread has done up to now. If it switches meanwhile, it has done so itself. */
static __always_inline void sweep_thread(struct task_struct *task, struct thread_time *thread)
{
	__u64 since_ns = *(volatile __u64 *)&thread->since_ns, now, running_since_ns, delay_ns;
	struct switch_cpu *cpu;
	struct spell spell;
	__u32 zero = 0;

	running_since_ns = now = bpf_ktime_get_ns();
	delay_ns = thread->delay_ns;
	if (task->on_cpu) {
		cpu = bpf_map_lookup_percpu_elem(&switch_cpus, &zero, task->thread_info.cpu);
		if (!cpu)
			return;
		running_since_ns = *(volatile __u64 *)&cpu->since_ns;
		delay_ns = run_delay_of(task);
	} else if (thread->left_as == THREAD_BLOCKED && !is_asleep(task)) {
		return;
	}
	spell = spell_of(since_ns, now, running_since_ns, ns_between(thread->delay_ns, delay_ns),
			 thread->left_as);
	if (!__sync_bool_compare_and_swap(&thread->since_ns, since_ns, now))
		return;
	thread->delay_ns = delay_ns;
	thread->swept_ns[THREAD_RUNNING] += spell.ns[THREAD_RUNNING];
	thread->swept_ns[THREAD_WAITING] += spell.ns[THREAD_WAITING];
	thread->swept_ns[THREAD_BLOCKED] += spell.ns[THREAD_BLOCKED];
}

/* Sleepable, so that there is memory for all threads at once. */
SEC("iter.s/task")
int sweep_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_time *thread;

	if (!task || !is_asked_for(task) || task->exit_state)
		return 0;
	thread = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!thread) {
		if (task->start_time > begun_ns)
			begin_thread(task, task->start_time, 0);
		else
			begin_thread(task, bpf_ktime_get_ns(), run_delay_of(task));
		return 0;
	}
	sweep_thread(task, thread);
	tell_totals(task, thread, sweep_slot);
	return 0;
}
