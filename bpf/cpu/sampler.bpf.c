// SPDX-License-Identifier: GPL-2.0-only
// On-CPU sampler: a perf event per CPU ticks about every 10 ms. sample_on_cpu() unwinds the current thread,
// sends a new stack trace once, and counts.

#include "base/time_span.h"
#include "bpf/gpu/gpu_idle.bpf.h"
#include "bpf/kernel.h"
#include "bpf/maps.bpf.h"
#include "bpf/process/process_events.bpf.h"
#include "bpf/cpu/late_tick.h"
#include "bpf/cpu/sample_log.bpf.h"
#include "bpf/stacks/sample_stack.bpf.h"
#include "bpf/cpu/stolen_time.bpf.h"
#include "bpf/wake.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

/* Ticks of a CPU never overlap (perf's recursion guard). */
struct cpu {
	__u64 tick_ns;      // time of the last tick
	__u64 stolen_ns;    // part of stolen_ns() left out of weights so far
	__u64 late;         // the last tick was late
	__u64 remainder_ns; // part of the weight below WEIGHT_UNIT_NS
	struct clock_lag clock_lag;
	struct sample_log_end log_end;
	struct sample_stack stack; // last: it ends in the stack's frames
};

_Static_assert(sizeof(struct cpu) <= 32768, "the largest value of a per-CPU map");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

#define WEIGHT_UNIT_NS \
	100000 // 1 % of a period at 99 Hz: finer weights would be mostly noise, and noise takes space
#define LATE_SHARE         8           // a tick is late by more than this part of its period
#define CHARGE_PERIODS_MAX 4           // the most that one tick charges ...
#define CHARGE_NS_MAX      40000000ULL // ... also at high frequencies

#define STOLEN_AHEAD_NS_MAX 1000000000LL // more is no race of clocks: start over

/* How long the task has had its CPU. */
static __always_inline __u64 running_ns(struct cpu *cpu, struct task_struct *task, __u64 now)
{
	__u64 ran_ns, lag_ns;
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.prev_sum_exec_runtime))
		return 0;
	ran_ns = task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(struct cfs_rq, rq) ||
	    !bpf_core_field_exists(task->se.exec_start))
		return ran_ns;
	rq = task->se.cfs_rq->rq;
	lag_ns = clock_lag_ns(&cpu->clock_lag, now, rq->clock);
	return ran_ns + ns_between(task->se.exec_start, rq->clock_task) + lag_ns;
}

/*
 * @ns without stolen time. Time found too late is left out of a later tick; so is the rest of time left out
 * too early, when another CPU is about to update this run queue's clocks.
 */
static __always_inline __u64 without_stolen(struct cpu *cpu, struct task_struct *task, __u64 ns)
{
	__s64 left_out = stolen_ns(task) - cpu->stolen_ns;

	if (left_out < -STOLEN_AHEAD_NS_MAX) {
		cpu->stolen_ns += left_out;
		return ns;
	}
	if (left_out < 0)
		left_out = 0;
	if ((__u64)left_out > ns)
		left_out = ns;
	cpu->stolen_ns += left_out;
	return ns - left_out;
}

/*
 * The weight of this tick. In cycles, which stop on an idle CPU: the period. By a CPU clock: the time since
 * the last tick without stolen time, so changes of the period cost nothing.
 *
 * A late tick that hits a task which began after it was due weighs what late_tick.h says, mostly nothing. Ticks stay on their
 * grid, so the next one hits at a random moment again and has one period of weight. A late tick that hits an older task means
 * that the whole machine was stopped: if the kernel does not know, it charges the task, and so do we, up to a limit.
 */
static __always_inline __u64 tick_weight(struct cpu *cpu, struct task_struct *task, __u64 now)
{
	__u32 number = bpf_get_smp_processor_id();
	struct tick_period *period = bpf_map_lookup_elem(&tick_periods, &number);
	__u64 before = cpu->tick_ns, due_from, elapsed_ns, ran_ns;
	__u64 ns = without_stolen(cpu, task, now - before);
	bool was_late = cpu->late;

	cpu->tick_ns = now;
	cpu->late = 0;
	if (!period || !period->period_ns)
		return 0;
	if (only_cycles)
		return period->period_ns;
	ran_ns = task->pid ? running_ns(cpu, task, now) : 0; // an idle CPU: nobody
	due_from = before > period->since_ns ? before : period->since_ns;
	elapsed_ns = ns_between(now - before - ns, ns_between(due_from, now));
	if (elapsed_ns > period->period_ns + period->period_ns / LATE_SHARE &&
	    ran_ns < elapsed_ns - period->period_ns) {
		cpu->late = 1;
		return late_tick_weight(elapsed_ns, period->period_ns, ran_ns);
	}
	if (was_late || !before ||
	    (ns > CHARGE_NS_MAX && ns > CHARGE_PERIODS_MAX * period->period_ns))
		return period->period_ns;
	return ns;
}

/* Rounds to whole units; the rest goes to this CPU's next sample, so sums stay exact. */
static __always_inline __u64 round_weight(struct cpu *cpu, __u64 ns)
{
	ns += cpu->remainder_ns;
	cpu->remainder_ns = ns % WEIGHT_UNIT_NS;
	return ns - cpu->remainder_ns;
}

/* Counts the sample as GPU idle time, too, if the GPU waits for this thread. */
static __always_inline int count_gpu_idle(struct count_key *key, __u64 weight_ns, __u64 now)
{
	__u64 ns = gpu_idle_of_tick(&key->process, weight_ns, now);

	key->kind = SAMPLE_KIND_GPU_IDLE;
	return ns ? add_count(key, ns, 1) : 0;
}

static __always_inline int count_sample(struct cpu *cpu, const struct count_key *key,
					__u64 weight_ns)
{
	if (log_sample(&cpu->log_end, key, weight_ns))
		return count(COUNTER_SAMPLES);
	return add_count(key, weight_ns, 1);
}

SEC("perf_event")
int sample_on_cpu(struct bpf_perf_event_data *ctx)
{
	__u64 now = bpf_ktime_get_ns(), weight_ns;
	__u32 pid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &zero);
	struct task_struct *task;
	struct count_key key = {};

	if (!cpu)
		return 0;
	task = bpf_get_current_task_btf();
	weight_ns = tick_weight(cpu, task, now);
	if (!pid) // the idle task
		return count(COUNTER_TICKS_IDLE);
	if (!weight_ns)
		return count(COUNTER_TICKS_LATE);
	if (only_targets && !bpf_map_lookup_elem(&target_pids, &pid))
		return count(COUNTER_SAMPLES_FILTERED);

	weight_ns = round_weight(cpu, weight_ns);
	key_of_current(task, now, &key);
	key.kind = SAMPLE_KIND_ON_CPU;
	if (sample_stack(&cpu->stack, now, ctx, task, weight_ns, &key))
		return 0;
	if (only_gil && !cpu->stack.holds_gil)
		return count(COUNTER_SAMPLES_FILTERED);
	count_sample(cpu, &key, weight_ns);
	if (now < shared.gpu_idle_until_ns)
		return count_gpu_idle(&key, weight_ns, now);
	return 0;
}
