// SPDX-License-Identifier: GPL-2.0-only
// Wall-clock time of threads. At each context switch the previous thread is charged for all it did since
// its last switch; the agent's sweep charges threads that do not switch. The next thread costs nothing.

#include "bpf/kernel.h"
#include "bpf/maps.bpf.h"
#include "bpf/switch/sweep.bpf.h"
#include "bpf/switch/thread_report.bpf.h"
#include "bpf/switch/thread_tracking.bpf.h"
#include "bpf/switch/wait_capture.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
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

/* ---- switches --------------------------------------------------------------------------------- */

/*
 * The time of the capture is not part of the interval: a kept interval would be longer than those whose
 * weight it has. It counts as running, as the thread had the CPU.
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
	if (*mean_ns == WAIT_FIRST_MEAN_NS)
		*mean_ns = (__u32)capped_ns;
	else
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
