/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The state from which a process's GPU idle time is computed (gpu_idle.bpf.h). Shared with the agent.
#pragma once

#include "bpf/sample.h"

#define GPU_IDLE_STREAMS 16 // of a process; PyTorch has pools of 32, and uses a few at a time
#define GPU_IDLE_RECENT  16 // idle intervals kept: an off-CPU wait is charged when it ends

struct gpu_idle_stream {
	__u64 handle;      // 0: unused
	__u64 enqueued_ns; // work was enqueued last; at the latest when the on phase began
	__u64 used_ns;     // work was seen to be enqueued last
	__u64 covered_ns;  // begin of the last wait for the stream that has returned
	__u64 tid;         // that enqueued last
};

struct gpu_idle_interval {
	__u64 from_ns;
	__u64 end_ns;
};

struct gpu_idle {
	__u64 begin_ns, end_ns; // of the current on phase
	__u64 seen_ns;          // length of earlier on phases
	__u64 from_ns;          // idle since then; 0: not idle
	__u64 total_ns;         // of past idle intervals, times weight
	__u64 charged_ns;       // of total_ns: to stacks
	__u64 whole_ns;         // begin of the last wait for all streams that has returned
	__u64 unknown_ns;       // work was last enqueued on a stream that is not in the list
	__u64 context;          // last used; 0: unknown
	__u64 from_init; // the process was seen from its cuInit on, so all of its contexts are known
	__u64 has_contexts; // several: then a context's wait does not cover all streams
	__u32 weight;
	__u32 tid; // of the thread whose wait found the GPU idle: its stacks are charged
	char thread_name[THREAD_NAME_BYTES];
	__u64 next_recent;
	struct gpu_idle_interval recent[GPU_IDLE_RECENT];
	struct gpu_idle_stream streams[GPU_IDLE_STREAMS];
};

/* Idle time until now, times weight. */
static inline __u64 gpu_idle_sum(const struct gpu_idle *idle, __u64 now)
{
	__u64 from_ns = *(const volatile __u64 *)&idle->from_ns;
	__u64 end_ns = now < idle->end_ns ? now : idle->end_ns;

	return idle->total_ns +
	       (from_ns && end_ns > from_ns ? (end_ns - from_ns) * idle->weight : 0);
}
