/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// When to wake the agent for what lies in the ring buffer: hardly ever. It looks every 20 ms by itself
// (agent/profiler.c), and to be woken is an interrupt that a CPU sends to itself, which on a virtual
// machine takes 15 us: more than all the rest of a sample.
#pragma once

#include "base/time_span.h"
#include "bpf/maps.bpf.h"

/* What fills this part of the ring before the agent looks is a storm, or it looks late. */
#define WAKE_RING_SHARE 8
/* At most 100 times a second. */
#define WAKE_INTERVAL_NS 10000000ULL

/* The flags to write a record with, now. When was the last is known without locks: at worst one is too many. */
static __always_inline __u64 wake_flags(__u64 now)
{
	__u64 used = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);

	if (used < bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / WAKE_RING_SHARE ||
	    ns_between(shared.woken_last_ns, now) < WAKE_INTERVAL_NS)
		return BPF_RB_NO_WAKEUP;
	shared.woken_last_ns = now;
	return BPF_RB_FORCE_WAKEUP;
}
