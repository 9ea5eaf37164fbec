// SPDX-License-Identifier: GPL-2.0-only
// On-CPU sampler: a perf event per CPU ticks about every 10 ms and runs sample_on_cpu(), which
// unwinds the current thread, sends a stack's body the first time it is seen, and counts.

#include "kernel.h"
#include "maps.bpf.h"
#include "process.bpf.h"
#include "registers.h"
#include "snapshot.bpf.h"
#include "stack_work.bpf.h"
#include "wake.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

/* A CPU's ticks never overlap (perf's recursion guard), and no other program uses this. */
struct cpu {
	__u64 tick_ns;      // when the last tick was
	__u64 late;         // it came late
	__u64 remainder_ns; // of its weight, below WEIGHT_UNIT_NS
	struct snapshot_record snapshot;
	struct snapshot_budget snapshot_budget;
	__u64 kernel_addresses[KERNEL_DEPTH_MAX + 1];
	struct stack_work work; // last: a body's frames are its end
};

_Static_assert(sizeof(struct cpu) <= 32768, "the largest value of a per-CPU map");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

#define WEIGHT_UNIT_NS \
	100000 // a hundredth of a period at 99 Hz: noise below it would be most of what is stored
#define LATE_SHARE         8           // a tick is late by more than this part of its period
#define CHARGE_PERIODS_MAX 4           // no more than this is charged at once,
#define CHARGE_NS_MAX      40000000ULL // or than this, at high frequencies

/* For how long the task has had its CPU, as of the scheduler's last look (at most a jiffy ago). */
static __always_inline __u64 running_ns(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.prev_sum_exec_runtime))
		return 0;
	return task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
}

/*
 * What this tick stands for. With cycles, which stand still on an idle CPU, the period. With a CPU
 * clock the time since the last one, which stays right when the period changes.
 *
 * A late tick stands for nothing if the task has just begun: some hypervisors hold the timer of an
 * idle CPU back until it works again, and that tick always hits who comes first. The grid of ticks
 * is kept meanwhile, so the one after it comes at a random moment again and stands for its period.
 * A task that had the CPU before was merely stopped together with the machine, and is charged
 * as the kernel charges it, unless that was for very long.
 */
static __always_inline __u64 tick_weight(struct cpu *cpu, struct task_struct *task, __u64 now)
{
	__u32 number = bpf_get_smp_processor_id();
	struct tick_period *period = bpf_map_lookup_elem(&tick_periods, &number);
	__u64 before = cpu->tick_ns, due_from, slack_ns;
	bool was_late = cpu->late;

	cpu->tick_ns = now;
	cpu->late = 0;
	if (!period)
		return 0;
	if (only_cycles)
		return period->period_ns;
	due_from = before > period->since_ns ? before : period->since_ns;
	slack_ns = period->period_ns / LATE_SHARE;
	if (now - due_from > period->period_ns + slack_ns && running_ns(task) < slack_ns) {
		cpu->late = 1;
		return 0;
	}
	if (was_late || !before ||
	    (now - before > CHARGE_NS_MAX && now - before > CHARGE_PERIODS_MAX * period->period_ns))
		return period->period_ns;
	return now - before;
}

/* Whole units of @ns; the rest is added to this CPU's next sample, so that sums stay exact. */
static __always_inline __u64 round_weight(struct cpu *cpu, __u64 ns)
{
	ns += cpu->remainder_ns;
	cpu->remainder_ns = ns % WEIGHT_UNIT_NS;
	return ns - cpu->remainder_ns;
}

/* Returns true if the agent has been given the sample, to unwind it later. */
static __always_inline bool hand_over(struct cpu *cpu, __u64 now, struct task_struct *task,
				      const struct count_key *key, __u64 weight_ns)
{
	struct snapshot_record *snapshot = &cpu->snapshot;

	if (cpu->work.unwind.end != END_TAG_NO_MAPPING ||
	    !snapshot_is_affordable(&cpu->snapshot_budget, now))
		return false;
	snapshot->key = *key;
	snapshot->count.value = weight_ns;
	snapshot->count.samples = 1;
	bpf_probe_read_kernel_str(snapshot->process_name, sizeof(snapshot->process_name),
				  &task->group_leader->comm);
	return snapshot_send(snapshot, now);
}

/*
 * The user's stack, of which the registers are in cpu->work.unwind; they are ours to read only if
 * @is_known_code. Returns true if the sample needs no counting any more.
 */
static __always_inline bool sample_user_stack(struct cpu *cpu, __u64 now, struct task_struct *task,
					      bool is_known_code, __u64 weight_ns,
					      struct count_key *key)
{
	struct unwind *unwind = &cpu->work.unwind;
	bool is_new;

	find_unwind_process(unwind, &key->process);
	unwind->thread_pointer = thread_pointer_of(task);
	is_new = !unwind->process.mapping_page_count || unwind->process.tables_pending;
	if (take_snapshots && is_new)
		snapshot_begin(&cpu->snapshot, unwind);
	unwind_user_stack(&cpu->work, is_known_code);
	if (take_snapshots && is_new && hand_over(cpu, now, task, key, weight_ns))
		return true;

	keep_user_stack(&cpu->work, now, task->group_leader->comm, key);
	return false;
}

/* Hash the kernel's return addresses, and lay them out as frames for a body that must be sent. */
struct kernel_stack {
	struct cpu *cpu;
	struct stack_hasher hasher;
	__u32 frame_count;
	__u32 pad;
};

static long hash_kernel_frame(__u32 index, struct kernel_stack *stack)
{
	if (index >= KERNEL_DEPTH_MAX)
		return 1;
	stack_hash_add(&stack->hasher, stack->cpu->kernel_addresses[index + 1], FRAME_TAG_KERNEL,
		       0);
	return 0;
}

static long lay_out_kernel_frame(__u32 index, struct kernel_stack *stack)
{
	if (index >= KERNEL_DEPTH_MAX)
		return 1;
	stack->cpu->work.record.body.frames[index].address =
		stack->cpu->kernel_addresses[index + 1];
	stack->cpu->work.record.body.frames[index].tag = FRAME_TAG_KERNEL;
	stack->cpu->work.record.body.frames[index].detail = 0;
	return 0;
}

static __always_inline void sample_kernel_stack(struct cpu *cpu, __u64 now,
						struct bpf_perf_event_data *ctx, __u64 pc,
						struct count_key *key)
{
	struct kernel_stack stack = { .cpu = cpu };
	struct process_key nobody = {};
	struct raw_frame leaf = { .tag = FRAME_TAG_KERNEL };
	long size = bpf_get_stack(ctx, cpu->kernel_addresses,
				  KERNEL_DEPTH_MAX * sizeof(cpu->kernel_addresses[0]), 0);
	__u32 depth = size > 0 ? (__u32)size / sizeof(cpu->kernel_addresses[0]) : 0;
	__u32 end = depth == KERNEL_DEPTH_MAX ? END_TAG_DEPTH : END_TAG_COMPLETE;

	key->kernel_leaf = depth ? cpu->kernel_addresses[0] : pc;
	stack.frame_count = depth ? depth - 1 : 0;
	count_many(COUNTER_KERNEL_FRAMES, depth);

	stack_hash_begin(&stack.hasher, &nobody);
	bpf_loop(stack.frame_count, hash_kernel_frame, &stack, 0);
	key->kernel = stack_hash_finish(&stack.hasher, stack.frame_count, end);
	if (stack_is_known(&key->kernel))
		return;
	bpf_loop(stack.frame_count, lay_out_kernel_frame, &stack, 0);
	cpu->work.record.body.process = nobody;
	cpu->work.record.process_name[0] = 0;
	leaf.address = key->kernel_leaf;
	send_stack(&cpu->work, now, &leaf, stack.frame_count, end, &key->kernel);
}

SEC("perf_event")
int sample_on_cpu(struct bpf_perf_event_data *ctx)
{
	__u64 now = bpf_ktime_get_ns(), weight_ns;
	__u32 pid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct task_struct *task, *leader;
	struct interrupted interrupted;
	struct count_key key = {};
	bool is_known_code;

	if (!cpu)
		return 0;
	task = bpf_get_current_task_btf();
	weight_ns = tick_weight(cpu, task, now);
	wake_if_due(now);
	if (!pid) // the idle task
		return count(COUNTER_SAMPLES_IDLE);
	if (!weight_ns)
		return count(COUNTER_TICKS_LATE);
	if (only_followed && !bpf_map_lookup_elem(&followed, &pid))
		return count(COUNTER_SAMPLES_FILTERED);

	weight_ns = round_weight(cpu, weight_ns);
	leader = task->group_leader;
	key.process.pid = pid;
	key.process.exec_id = leader->self_exec_id;
	key.process.start_ns = leader->start_boottime;
	key.slot = (now + realtime_offset_ns) / slot_ns;
	key.kind = SAMPLE_KIND_ON_CPU;
	bpf_get_current_comm(key.thread_name, sizeof(key.thread_name));

	interrupted = interrupted_by_tick(ctx);
	if (!interrupted.user)
		sample_kernel_stack(cpu, now, ctx, interrupted.pc, &key);
	if (task->mm && !(task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))) {
		is_known_code = interrupted.user ? registers_of_tick(&cpu->work.unwind, ctx)
						 : registers_of_user(&cpu->work.unwind, task);
		if (sample_user_stack(cpu, now, task, is_known_code, weight_ns, &key))
			return 0;
	}
	return add_count(&key, weight_ns, 1);
}
