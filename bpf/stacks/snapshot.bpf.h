/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Snapshots: samples of processes whose unwind tables are not loaded yet are sent to the agent with registers
// and stack memory, and unwound later. So short-lived processes have complete stacks, too.
#pragma once

#include "base/time_span.h"
#include "bpf/stacks/unwind_memory.bpf.h"
#include "bpf/wake.bpf.h"

const volatile bool send_snapshots = false; // set before load

/* Per CPU: 17 KiB each; the ring holds at least 64. */
#define SNAPSHOTS_PER_SECOND 50
#define SNAPSHOT_BURST       20

struct snapshot_budget {
	__u64 since_ns; // token bucket: when it was last full, moved on by what was spent
};

static __always_inline bool snapshot_is_affordable(struct snapshot_budget *budget, __u64 now)
{
	const __u64 price_ns = 1000000000ULL / SNAPSHOTS_PER_SECOND;

	if (ns_between(budget->since_ns, now) > SNAPSHOT_BURST * price_ns)
		budget->since_ns = now - SNAPSHOT_BURST * price_ns;
	if (ns_between(budget->since_ns, now) < price_ns)
		return false;
	budget->since_ns += price_ns;
	return true;
}

static __always_inline __u32 read_stack_pages(struct snapshot_record *record, __u64 sp)
{
	__u64 page = sp & ~(__u64)(SNAPSHOT_PAGE_BYTES - 1);
	__u32 count = 0;

#pragma unroll
	for (__u32 i = 0; i < SNAPSHOT_PAGES; i++) {
		if (count == i && !read_user(record->stack + i * SNAPSHOT_PAGE_BYTES,
					     SNAPSHOT_PAGE_BYTES, page + i * SNAPSHOT_PAGE_BYTES))
			count = i + 1;
	}
	return count;
}

/* Call it before unwinding, which changes the registers. */
static __always_inline void snapshot_begin(struct snapshot_record *record,
					   const struct unwind *unwind)
{
	record->pc = unwind->pc;
	record->exact_pc = unwind->exact_pc;
	record->thread_pointer = unwind->thread_pointer;
	__builtin_memcpy(record->registers, unwind->registers, sizeof(record->registers));
}

/* Returns true if the agent has the sample; else count it as it is. */
static __always_inline bool snapshot_send(struct snapshot_record *record, __u64 now)
{
	__u32 pages = read_stack_pages(record, record->registers[REGISTER_SP]);

	if (!pages)
		return false;
	record->kind = RECORD_SNAPSHOT;
	record->page_count = pages;
	if (pages > SNAPSHOT_PAGES) // for the verifier
		return false;
	if (bpf_ringbuf_output(&records, record,
			       offsetof(struct snapshot_record, stack) +
				       pages * SNAPSHOT_PAGE_BYTES,
			       wake_flags(now))) {
		count(COUNTER_SNAPSHOTS_DROPPED);
		return false;
	}
	count(COUNTER_SNAPSHOTS);
	return true;
}
