/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// When to wake the agent for what lies in the ring buffer: soon, so that it reads the mappings of a
// process that lives for a moment, but not for each of a thousand new stacks in a second.
#pragma once

#include "maps.bpf.h"

/* At most 100 times a second; ticks of all CPUs come more often than that. */
#define WAKE_INTERVAL_NS 10000000ULL

/* Shared by all CPUs without locks: at worst the agent is woken once too often. */
struct {
	__u64 last_ns;
	__u32 due; // records were written without waking
	__u32 pad;
} wake SHARED_VARIABLE = {};

/* The flags to write a record with, now. */
static __always_inline __u64 wake_flags(__u64 now)
{
	if (now - wake.last_ns < WAKE_INTERVAL_NS) {
		wake.due = 1;
		return BPF_RB_NO_WAKEUP;
	}
	wake.last_ns = now;
	wake.due = 0;
	return BPF_RB_FORCE_WAKEUP;
}

/* On each tick: wake for records that were written too soon after the last time. */
static __always_inline void wake_if_due(__u64 now)
{
	void *nothing;

	if (!wake.due || now - wake.last_ns < WAKE_INTERVAL_NS)
		return;
	wake.last_ns = now;
	wake.due = 0;
	nothing = bpf_ringbuf_reserve(&records, sizeof(__u64), 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}
