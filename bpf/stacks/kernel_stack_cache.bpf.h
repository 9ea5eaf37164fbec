/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The cache of kernel stacks, in a map: looks up where a tick interrupted the kernel, and keeps what was unwound there.
#pragma once

#include "bpf/stacks/kernel_stack.bpf.h"
#include "bpf/stacks/kernel_stack_cache.h"
#include "bpf/stacks/registers.h"

/* 4,096 stacks in 128 KiB. */
#define KERNEL_CACHE_BITS 11

/* One hit in so many is unwound all the same; a power of two. */
#define KERNEL_CACHE_CHECK_EVERY 64
/* The cache is off where more than one in so many of its checked stacks is stale ... */
#define KERNEL_CACHE_STALE_ONE_IN 10000
/* ... and more than so many are: fewer say nothing. */
#define KERNEL_CACHE_STALE_MIN 4

#define KERNEL_STACK_BYTES_MAX \
	(32U << 10) // more is another stack: interrupts have one of their own

/* Mappable: such a map begins with a page, and a set is a cache line. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << KERNEL_CACHE_BITS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct kernel_stack_set);
} kernel_stacks SEC(".maps");

/* Per program and CPU. */
struct kernel_cache_work {
	__u64 hits;
	__u64 checked;
	__u64 stale;
	__u64 saved_at; // address of the saved user registers
	struct kernel_stack_top at;
	struct kernel_stack_entry entry; // being made
};

static __always_inline bool kernel_cache_is_off(const struct kernel_cache_work *work)
{
	return work->stale > KERNEL_CACHE_STALE_MIN &&
	       work->stale * KERNEL_CACHE_STALE_ONE_IN > work->checked;
}

/* Returns false where the stack is not the thread's own or cannot be read. */
static __always_inline bool read_kernel_top(struct kernel_cache_work *work,
					    const struct interrupted *interrupted,
					    const struct pt_regs___saved *saved)
{
	struct kernel_stack_top *at = &work->at;
	__u64 bytes, size;

	// What comes back from memory is a number for the verifier, which may be subtracted from.
	*(volatile __u64 *)&work->saved_at = (__u64)saved;
	bytes = *(volatile __u64 *)&work->saved_at - interrupted->sp;
	if (bytes - 1 >= KERNEL_STACK_BYTES_MAX || bytes % 8)
		return false;
	size = bytes < sizeof(at->words) ? bytes : sizeof(at->words);
	at->pc = interrupted->pc;
	at->word_count = size / 8;
	return !bpf_probe_read_kernel(at->words, size, (const void *)interrupted->sp) &&
	       !bpf_probe_read_kernel(&at->top, sizeof(at->top),
				      (const void *)(interrupted->sp + bytes - sizeof(at->top)));
}

/* The entries where the stack at work->at can be; NULL: it cannot be cached. */
static __always_inline struct kernel_stack_set *find_kernel_stack_set(
	struct kernel_cache_work *work, const struct interrupted *interrupted,
	const struct pt_regs___saved *saved)
{
	__u32 index;

	if (kernel_cache_is_off(work) || !read_kernel_top(work, interrupted, saved))
		return NULL;
	index = kernel_cache_index(&work->at, system_call_of(saved), KERNEL_CACHE_BITS);
	return bpf_map_lookup_elem(&kernel_stacks, &index);
}

/* NULL: not cached. */
static __always_inline struct kernel_stack_entry *find_kernel_stack(
	struct kernel_stack_set *set, const struct kernel_stack_top *at,
	struct stack_hash *ret_hash)
{
	if (kernel_cache_matches(&set->ways[0], at, ret_hash))
		return &set->ways[0];
	return kernel_cache_matches(&set->ways[1], at, ret_hash) ? &set->ways[1] : NULL;
}

static long look_for_return(__u32 index, struct kernel_cache_search *search)
{
	return kernel_cache_look_at(search, index);
}

/* Makes an entry of the stack that was unwound at work->at: @depth addresses, leaf first. */
static __always_inline void cache_kernel_stack(struct kernel_cache_work *work,
					       struct kernel_stack_set *set,
					       const struct kernel_addresses *addresses,
					       __u32 depth, const struct stack_hash *hash)
{
	struct kernel_cache_search search = { .at = &work->at, .callers = &addresses->at[1] };
	__u32 last = depth - 1;

	if (last - 1 >= KERNEL_DEPTH_MAX - 1 || addresses->at[0] != work->at.pc)
		return;
	HIDE_FROM_COMPILER(last); // keep the bound: 6.1 has not seen it here
	last &= KERNEL_DEPTH_MAX;
	// The entry code's return address is compared anyway, wherever it is.
	search.count = addresses->at[last] == work->at.top ? last - 1 : last;
	bpf_loop(KERNEL_CACHE_WORDS, look_for_return, &search, 0);
	if (search.found != search.count)
		return;
	kernel_cache_fill(&work->entry, &work->at, search.word_count, hash);
	set->ways[1] = set->ways[0];
	set->ways[0] = work->entry;
}

/* The stack that @cached has as @expected has been unwound as @hash. */
static __always_inline void check_kernel_stack(struct kernel_cache_work *work,
					       struct kernel_stack_entry *cached,
					       const struct stack_hash *expected,
					       const struct stack_hash *hash)
{
	work->checked++;
	count(COUNTER_KERNEL_CACHE_CHECKED);
	if (expected->high == hash->high && expected->low == hash->low)
		return;
	work->stale++;
	count(COUNTER_KERNEL_CACHE_STALE);
	cached->checksum = 0;
}
