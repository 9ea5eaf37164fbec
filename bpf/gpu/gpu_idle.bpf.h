/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// GPU idle (no work queued): a process's GPU is idle from the return of a wait that covers all work enqueued on its streams,
// until work is enqueued again. All enqueueing calls are seen in on phases of the probe duty cycle only (struct
// gpu_on_phase), so an idle interval begins and ends within one, with the phase's weight. What is unknown is not idle: the
// sum is a lower bound.
#pragma once

#include "base/time_span.h"
#include "bpf/gpu/gpu_idle.h"
#include "bpf/maps.bpf.h"

#define GPU_IDLE_PROCESSES_MAX 512            // that use a GPU
#define GPU_IDLE_UNUSED_NS     30000000000ULL // a stream without new work for so long is unused
/* Between threads: a wait may begin while another thread is still inside its enqueueing call, and not cover it. */
#define GPU_IDLE_MARGIN_NS 1000000ULL
/* A process's streams count as known after so much time in on phases: the first of these are short. */
#define GPU_IDLE_KNOWN_NS 1000000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_IDLE_PROCESSES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct process_key);
	__type(value, struct gpu_idle);
} gpu_idle SEC(".maps");

/*
 * Charge @ns (times weight) of idle time to a stack of the thread whose wait found the GPU idle. Returns how much of it was
 * not charged yet: so the stacks' sum never exceeds the idle time.
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

/* The idle time that a CPU sample of the current thread, of weight @ns, is charged with. */
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
	__u64 ns; // overlap found
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

/* The idle time that an off-CPU wait of thread @tid, with this weight, is charged with. */
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
