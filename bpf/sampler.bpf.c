// SPDX-License-Identifier: GPL-2.0-only
// On-CPU sampler: a perf event per CPU ticks about every 10 ms and runs sample_on_cpu(), which
// unwinds the current thread, sends a stack's body the first time it is seen, and counts.

#include "kernel.h"
#include "maps.bpf.h"
#include "process.bpf.h"
#include "unwind_memory.bpf.h"
#include "registers.h"
#include "snapshot.bpf.h"
#include "wake.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* A CPU's ticks never overlap (perf's recursion guard), and no other program uses this. */
struct cpu {
	__u64 tick_ns;      // when the last tick was
	__u64 late;         // it came late
	__u64 remainder_ns; // of its weight, below WEIGHT_UNIT_NS
	struct unwind unwind;
	struct snapshot_record snapshot;
	struct snapshot_budget snapshot_budget;
	__u64 kernel_addresses[KERNEL_DEPTH_MAX + 1];
	union {
		struct stack_record record; // of the stack in work
		__u8 record_bytes[sizeof(struct stack_record) +
				  STACK_DEPTH_MAX * sizeof(struct raw_frame)];
	};
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

/* Send the body in cpu->record if the agent does not have it. */
static __always_inline void send_stack(struct cpu *cpu, __u64 now, const struct raw_frame *leaf,
				       __u32 frame_count, __u32 end, const struct stack_hash *hash)
{
	struct stack_record *record = &cpu->record;
	__u32 yes = 1;

	record->kind = RECORD_STACK;
	record->pad = 0;
	record->leaf = *leaf;
	record->body.hash = *hash;
	record->body.end = end;
	record->body.frame_count = frame_count;
	// For the verifier: older kernels know no bound of what a bpf_loop() callback has written.
	if (frame_count > STACK_DEPTH_MAX)
		return;
	if (bpf_ringbuf_output(&records, record,
			       sizeof(*record) + frame_count * sizeof(struct raw_frame),
			       wake_flags(now))) {
		// Not marked as known: it is sent again when it is seen again.
		count(COUNTER_RING_FULL);
		return;
	}
	count(COUNTER_STACKS_SENT);
	if (bpf_map_update_elem(&known_stacks, hash, &yes, BPF_ANY))
		count(COUNTER_STACKS_FULL);
}

static __always_inline bool stack_is_known(const struct stack_hash *hash)
{
	return bpf_map_lookup_elem(&known_stacks, hash) != NULL;
}

static __always_inline struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	struct cpu *cpu = (void *)unwind - offsetof(struct cpu, unwind);

	// Tells the verifier what the caller has checked already.
	return at < STACK_DEPTH_MAX ? &cpu->record.body.frames[at] : NULL;
}

/* bpf_loop() hands on a pointer to the stack, so that is where the pointer to the unwind lies. */
struct unwind_walk {
	struct unwind *unwind;
};

static long walk_unwind(__u32 index, struct unwind_walk *walk)
{
	return unwind_step(walk->unwind);
}

/* Leaves the stack in cpu->unwind, with the reason why it ended. */
static __always_inline void unwind_user_stack(struct cpu *cpu, bool is_known_code)
{
	struct unwind *unwind = &cpu->unwind;
	struct unwind_walk walk = { .unwind = unwind };

	unwind_begin(unwind);
	if (!is_known_code)
		unwind->end = END_TAG_COMPAT;
	else if (!unwind->pc)
		unwind->end = END_TAG_NO_REGISTERS;
	else
		bpf_loop(UNWIND_STEPS_MAX, walk_unwind, &walk, 0);
	if (unwind->end == UNWIND_GOES_ON)
		unwind->end = END_TAG_DEPTH;
	count_many(COUNTER_USER_FRAMES, unwind->frame_count + 1);
}

/* Returns true if the agent has been given the sample, to unwind it later. */
static __always_inline bool hand_over(struct cpu *cpu, __u64 now, struct task_struct *task,
				      const struct count_key *key, __u64 weight_ns)
{
	struct snapshot_record *snapshot = &cpu->snapshot;

	if (cpu->unwind.end != END_TAG_NO_MAPPING ||
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
 * The user's stack, of which the registers are in cpu->unwind; they are ours to read only if
 * @is_known_code. Returns true if the sample needs no counting any more.
 */
static __always_inline bool sample_user_stack(struct cpu *cpu, __u64 now, struct task_struct *task,
					      bool is_known_code, __u64 weight_ns,
					      struct count_key *key)
{
	struct unwind *unwind = &cpu->unwind;
	bool is_new;

	find_unwind_process(unwind, &key->process);
	unwind->thread_pointer = thread_pointer_of(task);
	is_new = !unwind->process.mapping_page_count || unwind->process.tables_pending;
	if (take_snapshots && is_new)
		snapshot_begin(&cpu->snapshot, unwind);
	unwind_user_stack(cpu, is_known_code);
	if (take_snapshots && is_new && hand_over(cpu, now, task, key, weight_ns))
		return true;

	key->user_leaf = unwind->leaf;
	key->user = stack_hash_finish(&unwind->hasher, unwind->frame_count, unwind->end);
	if (stack_is_known(&key->user))
		return false;
	cpu->record.body.process = key->process;
	bpf_probe_read_kernel_str(cpu->record.process_name, sizeof(cpu->record.process_name),
				  &task->group_leader->comm);
	send_stack(cpu, now, &unwind->leaf, unwind->frame_count, unwind->end, &key->user);
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
	stack->cpu->record.body.frames[index].address = stack->cpu->kernel_addresses[index + 1];
	stack->cpu->record.body.frames[index].tag = FRAME_TAG_KERNEL;
	stack->cpu->record.body.frames[index].detail = 0;
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
	cpu->record.body.process = nobody;
	cpu->record.process_name[0] = 0;
	leaf.address = key->kernel_leaf;
	send_stack(cpu, now, &leaf, stack.frame_count, end, &key->kernel);
}

static __always_inline int add_count(const struct count_key *key, __u64 value)
{
	struct count first = { .value = value, .samples = 1 };
	struct count *counts_of_key;
	__u32 zero = 0;
	void *counts = bpf_map_lookup_elem(&active_counts, &zero);
	long rc = 0;

	if (!counts)
		return count(COUNTER_COUNTS_FULL);
	counts_of_key = bpf_map_lookup_elem(counts, key);
	if (!counts_of_key) {
		rc = bpf_map_update_elem(counts, key, &first, BPF_NOEXIST);
		if (!rc)
			return count(COUNTER_SAMPLES);
		// -EEXIST: another CPU was a moment faster.
		counts_of_key = bpf_map_lookup_elem(counts, key);
	}
	if (!counts_of_key)
		return count(rc == -EBUSY ? COUNTER_COUNTS_BUSY : COUNTER_COUNTS_FULL);
	__sync_fetch_and_add(&counts_of_key->value, value);
	__sync_fetch_and_add(&counts_of_key->samples, 1);
	return count(COUNTER_SAMPLES);
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
		is_known_code = interrupted.user ? registers_of_tick(&cpu->unwind, ctx)
						 : registers_of_user(&cpu->unwind, task);
		if (sample_user_stack(cpu, now, task, is_known_code, weight_ns, &key))
			return count(COUNTER_SAMPLES);
	}
	return add_count(&key, weight_ns);
}
