/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What is known of a process's GPU being idle: bpf/gpu/gpu_idle.bpf.h says how.
#pragma once

#include "bpf/sample.h"

#define GPU_IDLE_STREAMS 16 // of a process; PyTorch has some pools of 32, and uses a few at a time
#define GPU_IDLE_RECENT \
	16 // intervals; those that a thread waited in are asked for when it waits again

struct gpu_idle_stream {
	__u64 handle;      // 0: unused
	__u64 enqueued_ns; // the last time, as far as known
	__u64 used_ns;     // the last time that was seen
	__u64 covered_ns;  // when the last wait for it was begun that has ended
	__u64 tid;         // who put something there last
};

struct gpu_idle_interval {
	__u64 from_ns;
	__u64 end_ns;
};

struct gpu_idle {
	__u64 begin_ns, end_ns; // of the window that all this is of
	__u64 seen_ns;          // the length of those before
	__u64 from_ns;          // idle since then; 0: it is not
	__u64 total_ns;         // of intervals that are over, times weight
	__u64 charged_ns;       // of these: to stacks
	__u64 whole_ns;         // when the last wait for all streams was begun that has ended
	__u64 unknown_ns;       // when something was put on a stream that is not among those below
	__u64 context;          // that is used; 0: not known
	__u64 from_init;        // all contexts of the process were seen
	__u64 has_contexts; // more than one: a wait for all streams is one for those of a context
	__u32 weight;
	__u32 tid; // of the thread that waited, and knows since when there is nothing to do
	char thread_name[THREAD_NAME_BYTES]; // its name
	__u64 next_recent;
	struct gpu_idle_interval recent[GPU_IDLE_RECENT];
	struct gpu_idle_stream streams[GPU_IDLE_STREAMS];
};

/* So much of it there was until now, times weight. */
static inline __u64 gpu_idle_sum(const struct gpu_idle *idle, __u64 now)
{
	__u64 from_ns = *(const volatile __u64 *)&idle->from_ns;
	__u64 end_ns = now < idle->end_ns ? now : idle->end_ns;

	return idle->total_ns +
	       (from_ns && end_ns > from_ns ? (end_ns - from_ns) * idle->weight : 0);
}
