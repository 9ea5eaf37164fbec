// SPDX-License-Identifier: GPL-2.0-only
// Memory growth by stack: what each page fault adds, as the change of the kernel's own RSS counters. While
// faults are few, each is sampled. In a storm one in n is, and has the weight of those before it. Huge pages are
// always sampled, with weight 1.

#include "bpf/memory/rss.bpf.h"
#include "bpf/maps.bpf.h"
#include "bpf/stacks/pace.bpf.h"
#include "bpf/stacks/sample_stack.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before load. */
const volatile __u32 page_bytes = 4096;

/* Programs grow in bursts: their beginning is sampled more densely than a storm that goes on. */
#define FAULT_BURST_SECONDS 1

/* Set at any time: about so many stacks a second on each CPU. */
__u32 stacks_per_second = 500;

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___faults {
	int pagefault_disabled; // faults are errors now, as in bpf_probe_read_user()
};

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pace);
} paces SEC(".maps");

/* A fault being handled. In task storage: the thread may be preempted or sleep meanwhile. */
struct fault {
	__u64 page;        // page number; 0: none
	__u64 weight;      // in faults; 0: sampled out
	struct rss before; // if sampled out, only shared and cpu
	__u64 is_copy;     // copy on write: counts one page even if RSS does not grow
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fault);
} faults SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_stack);
} fault_stacks SEC(".maps");

static __always_inline int fault_begins(__u64 address, bool is_copy)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct task_struct___faults *faulting = (void *)task;
	__u32 pid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct pace_limit limit = { stacks_per_second, FAULT_BURST_SECONDS };
	struct pace *pace;
	struct fault *fault;

	if (!task->mm || address >= USER_ADDRESS_LIMIT ||
	    (bpf_core_field_exists(faulting->pagefault_disabled) && faulting->pagefault_disabled))
		return 0;
	if (only_targets && !bpf_map_lookup_elem(&target_pids, &pid))
		return 0;
	pace = bpf_map_lookup_elem(&paces, &zero);
	fault = bpf_task_storage_get(&faults, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!pace || !fault)
		return count(COUNTER_FAULTS_DROPPED);
	fault->page = address / page_bytes;
	fault->weight = pace_sample(pace, &limit, COUNTER_FAULTS_UNREPRESENTED);
	fault->is_copy = is_copy;
	if (fault->weight) {
		fault->before = read_rss(task);
	} else {
		fault->before.shared = read_shared_rss(task);
		fault->before.cpu = bpf_get_smp_processor_id();
	}
	return 0;
}

/* x86 page-fault error code. */
#define X86_PF_PROT  1 // the page is present
#define X86_PF_WRITE 2

/* Arguments of both: unsigned long address, struct pt_regs *regs, unsigned long error_code. */
static __always_inline int x86_fault_begins(__u64 address, __u64 error_code)
{
	__u64 copy = X86_PF_PROT | X86_PF_WRITE;

	return fault_begins(address, (error_code & copy) == copy);
}

SEC("tp_btf/page_fault_user")
int fault_of_user(__u64 *ctx)
{
	return x86_fault_begins(ctx[0], ctx[2]);
}

/* The kernel touches the process's memory, as in read(2). */
SEC("tp_btf/page_fault_kernel")
int fault_of_kernel(__u64 *ctx)
{
	return x86_fault_begins(ctx[0], ctx[2]);
}

/* Fallback without these tracepoints, on other architectures. The kind of fault is unknown here. */
SEC("perf_event")
int fault_counted(struct bpf_perf_event_data *ctx)
{
	return fault_begins(ctx->addr, true);
}

static __always_inline bool is_alone(struct task_struct *task)
{
	return task->signal->live.counter == 1;
}

static __always_inline __u64 pages_of(struct task_struct *task, const struct fault *fault)
{
	struct rss after = read_rss(task);
	__s64 pages = 1;

	if (fault->before.is_known)
		pages = rss_growth(&fault->before, &after, is_alone(task));
	return pages || !fault->is_copy ? pages : 1;
}

/* Sampled out, but it added a huge page: without its stack 512 pages would be missing. */
static __always_inline bool was_huge(struct task_struct *task, const struct fault *fault)
{
	// The CPU-local part is flushed with it, and may be below zero.
	if (read_shared_rss(task) - fault->before.shared < HUGE_PAGES / 2)
		return false;
	return fault->before.cpu != bpf_get_smp_processor_id() ||
	       is_own_huge_page(task, is_alone(task));
}

/* What the fault added, times its weight; 0: nothing. */
static __always_inline __u64 bytes_of(struct task_struct *task, struct pace *pace, __u64 address,
				      __u64 *ret_weight)
{
	struct fault *fault = bpf_task_storage_get(&faults, task, NULL, 0);
	__u64 pages;

	*ret_weight = 1;
	if (!fault || !fault->page || fault->page != address / page_bytes)
		return 0;
	fault->page = 0;
	if (!fault->weight)
		return was_huge(task, fault) ? (__u64)HUGE_PAGES * page_bytes : 0;
	pages = pages_of(task, fault);
	if (pages >= HUGE_PAGES)
		pace->since += fault->weight - 1; // the next sample has their weight
	else
		*ret_weight = fault->weight;
	return pages * page_bytes * *ret_weight;
}

/* Software event after each minor or major fault. */
SEC("perf_event")
int fault_handled(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 zero = 0;
	struct pace *pace = bpf_map_lookup_elem(&paces, &zero);
	struct sample_stack *stack;
	struct count_key key = {};
	__u64 now, bytes, weight;

	if (!pace || !task->mm)
		return 0;
	bytes = bytes_of(task, pace, ctx->addr, &weight);
	if (!bytes)
		return 0;
	stack = bpf_map_lookup_elem(&fault_stacks, &zero);
	if (!stack)
		return 0;
	now = bpf_ktime_get_ns();
	key_of_current(task, now, &key);
	key.kind = SAMPLE_KIND_PAGE_FAULT;
	count(COUNTER_FAULTS_SAMPLED);
	if (sample_stack(stack, now, ctx, task, bytes, &key))
		return 0;
	return add_count(&key, bytes, weight);
}
