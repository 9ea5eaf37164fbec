/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// When a process's GPU has certainly nothing to do: from the return of a wait that covers all that the process
// has put on its streams, until it puts something on one again. All that is put there is seen in windows
// only (struct gpu_window), so idleness begins and ends within one and counts for those between. What
// is not known is not idle: the sum is a lower bound.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_idle.h"
#include "bpf/maps.bpf.h"

#define GPU_IDLE_PROCESSES_MAX 512 // that use a GPU
#define GPU_IDLE_FORGET_NS \
	30000000000ULL // a stream that nothing was put on for so long has nothing to do
/* Between two threads: the one that puts something on a stream is in the call yet when the other's begins. */
#define GPU_IDLE_MARGIN_NS 1000000ULL
/* For so long a process must have been seen before its streams are known: first windows are short. */
#define GPU_IDLE_KNOWN_NS 1000000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_IDLE_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct process_key);
	__type(value, struct gpu_idle);
} gpu_idle SEC(".maps");

/*
 * For so long, times weight, the thread that lets the GPU wait was seen to do the same: what of that is not
 * charged yet. So sums of stacks never exceed what is known to be idle.
 */
static __always_inline __u64 gpu_idle_charge(struct gpu_idle *idle, __u64 ns, __u64 now)
{
	__u64 sum = gpu_idle_sum(idle, now), charged = idle->charged_ns;

	if (sum <= charged)
		return 0;
	if (ns > sum - charged)
		ns = sum - charged;
	__sync_fetch_and_add(&idle->charged_ns, ns);
	return ns;
}

/* What a tick of the current thread, which stands for @ns, has of it. */
static __always_inline __u64 gpu_idle_of_tick(const struct process_key *process, __u64 ns,
					      __u64 now)
{
	struct gpu_idle *idle = bpf_map_lookup_elem(&gpu_idle, process);

	if (!idle || !idle->from_ns || now <= idle->from_ns || now >= idle->end_ns ||
	    idle->tid != (__u32)bpf_get_current_pid_tgid())
		return 0;
	return gpu_idle_charge(idle, ns * idle->weight, now);
}

static __always_inline __u64 gpu_idle_overlap(__u64 from_ns, __u64 end_ns, __u64 other_from_ns,
					      __u64 other_end_ns)
{
	__u64 from = from_ns > other_from_ns ? from_ns : other_from_ns;
	__u64 end = end_ns < other_end_ns ? end_ns : other_end_ns;

	return ns_between(from, end);
}

struct gpu_idle_search {
	const struct gpu_idle *idle;
	__u64 from_ns, end_ns;
	__u64 ns; // that was found
};

static long add_gpu_idle_overlap(__u32 index, struct gpu_idle_search *search)
{
	const struct gpu_idle_interval *interval;

	if (index >= GPU_IDLE_RECENT)
		return 1;
	interval = &search->idle->recent[index];
	search->ns += gpu_idle_overlap(search->from_ns, search->end_ns, interval->from_ns,
				       interval->end_ns);
	return 0;
}

/* What a wait of thread @tid has of it, which stands for @weight waits. */
static __always_inline __u64 gpu_idle_of_wait(const struct process_key *process, __u32 tid,
					      __u64 from_ns, __u64 end_ns, __u32 weight)
{
	struct gpu_idle *idle = bpf_map_lookup_elem(&gpu_idle, process);
	struct gpu_idle_search search = { .idle = idle, .from_ns = from_ns, .end_ns = end_ns };
	__u64 idle_from_ns;

	if (!idle || idle->tid != tid)
		return 0;
	bpf_loop(GPU_IDLE_RECENT, add_gpu_idle_overlap, &search, 0);
	idle_from_ns = idle->from_ns;
	if (idle_from_ns)
		search.ns += gpu_idle_overlap(from_ns, end_ns, idle_from_ns, idle->end_ns);
	return search.ns ? gpu_idle_charge(idle, search.ns * idle->weight * weight,
					   bpf_ktime_get_ns())
			 : 0;
}
