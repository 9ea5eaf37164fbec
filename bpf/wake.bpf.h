/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// When to wake the agent for records in the ring buffer: rarely. It polls every 20 ms anyway
// (agent/profiler.c), and a wake-up is an interrupt that a CPU sends itself: 15 us on a virtual machine,
// more than all the rest of a sample.
#pragma once

#include "base/time_span.h"
#include "bpf/maps.bpf.h"

/* So full before the next poll: a storm, or a late agent. */
#define WAKE_RING_SHARE  8
#define WAKE_INTERVAL_NS 10000000ULL

/* Flags to write a record with. Without locks: at worst there is one wake-up too many. */
static __always_inline __u64 wake_flags(__u64 now)
{
	__u64 used = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);

	if (used < bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / WAKE_RING_SHARE ||
	    ns_between(shared.woken_last_ns, now) < WAKE_INTERVAL_NS)
		return BPF_RB_NO_WAKEUP;
	shared.woken_last_ns = now;
	return BPF_RB_FORCE_WAKEUP;
}
