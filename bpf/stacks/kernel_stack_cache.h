/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A cache of kernel stacks. The kernel's unwinder takes 4 to 16 us for some seven frames where its tables are in no
// CPU cache, and a tick finds them so. It decides by the pc and the words on the stack: where both are as they were,
// the stack is, too. Of the words only return addresses matter, and those that earlier calls have left there, which
// cannot be told from them. Pure, unit-tested.
#pragma once

#include <linux/types.h>
#include <stdbool.h>

#include "bpf/unwind/stack_hash.h"

/* Words of the kernel stack that are compared, from sp up: 1.5 KiB hold the frames of most system calls. */
#define KERNEL_CACHE_WORDS 192

/*
 * All CPUs share the entries, and a tick may interrupt a program that writes one: all of it goes into the checksum,
 * and a mix of two matches nothing.
 */
struct kernel_stack_entry {
	__u64 pc_and_count; // of the words that are compared; see kernel_cache_tag()
	__u64 checksum;     // of these words, and of all else here
	struct stack_hash hash;
};

/* Entries in a cache line: timers interrupt the kernel at few places, which it reaches in many ways. */
#define KERNEL_CACHE_WAYS 2

struct kernel_stack_set {
	struct kernel_stack_entry ways[KERNEL_CACHE_WAYS]; // the newest first
};

_Static_assert(sizeof(struct kernel_stack_set) == 64, "a cache line");

/* Where the kernel was interrupted, and its stack there. */
struct kernel_stack_top {
	__u64 pc;
	__u64 top;        // the word right below the saved user registers
	__u64 word_count; // of the words that are valid: those up to there
	__u64 words[KERNEL_CACHE_WORDS];
};

#define KERNEL_CACHE_INLINE static inline __attribute__((always_inline))

KERNEL_CACHE_INLINE __u64 kernel_cache_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * HASH_C1;
	return hash ^ hash >> 29;
}

/* Kernel addresses have 56 bits of their own at most. */
#define KERNEL_CACHE_COUNT_BITS 8

_Static_assert(KERNEL_CACHE_WORDS < 1 << KERNEL_CACHE_COUNT_BITS, "it fits");

KERNEL_CACHE_INLINE __u64 kernel_cache_tag(__u64 pc, __u32 count)
{
	return pc << KERNEL_CACHE_COUNT_BITS | count;
}

/* May it be a return address? On x86-64 the kernel and its modules have the last 2 GiB, on aarch64 vmalloc's memory. */
KERNEL_CACHE_INLINE bool kernel_cache_is_code(__u64 word)
{
#ifdef __TARGET_ARCH_arm64
	return word >> 47 == 0x1ffff;
#else
	return word >> 31 == 0x1ffffffff;
#endif
}

/* Words, of these that are compared, that tell stacks with the same pc apart: memcpy() has many callers. */
#define KERNEL_CACHE_INDEX_WORDS 16

/* The set where a stack can be, of 1 << @bits. */
KERNEL_CACHE_INLINE __u32 kernel_cache_index(const struct kernel_stack_top *at, __s64 system_call,
					     __u32 bits)
{
	__u64 hash = kernel_cache_mix(at->pc, (__u64)system_call);

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < KERNEL_CACHE_INDEX_WORDS; i++) {
		if (i < at->word_count && kernel_cache_is_code(at->words[i]))
			hash = kernel_cache_mix(hash, at->words[i]);
	}
	return hash * HASH_C2 >> (64 - bits);
}

/* Of a stack @hash of which @count words are compared. */
KERNEL_CACHE_INLINE __u64 kernel_cache_checksum(const struct kernel_stack_top *at, __u32 count,
						const struct stack_hash *hash)
{
	__u64 sum = kernel_cache_mix(hash->high, at->top);

	sum = kernel_cache_mix(sum ^ hash->low, kernel_cache_tag(at->pc, count));
	if (count > at->word_count)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < KERNEL_CACHE_WORDS; i++) {
		if (i >= count)
			break;
		// A number in bits that are the same in all of these words.
		if (kernel_cache_is_code(at->words[i]))
			sum = kernel_cache_mix(sum, at->words[i] ^ (__u64)i << 48);
	}
	return sum ? sum : 1;
}

/* Makes @entry one of the stack @hash, of which @count words are compared. */
KERNEL_CACHE_INLINE void kernel_cache_fill(struct kernel_stack_entry *entry,
					   const struct kernel_stack_top *at, __u32 count,
					   const struct stack_hash *hash)
{
	entry->pc_and_count = kernel_cache_tag(at->pc, count);
	entry->checksum = kernel_cache_checksum(at, count, hash);
	entry->hash = *hash;
}

/* Sets the hash of the entry, which another CPU may change at any time, and returns whether it is the stack's. */
KERNEL_CACHE_INLINE bool kernel_cache_matches(const struct kernel_stack_entry *entry,
					      const struct kernel_stack_top *at,
					      struct stack_hash *ret_hash)
{
	__u64 tag = *(const volatile __u64 *)&entry->pc_and_count;
	__u32 count = tag & ((1 << KERNEL_CACHE_COUNT_BITS) - 1);

	if (tag != kernel_cache_tag(at->pc, count))
		return false;
	ret_hash->high = *(const volatile __u64 *)&entry->hash.high;
	ret_hash->low = *(const volatile __u64 *)&entry->hash.low;
	return entry->checksum == kernel_cache_checksum(at, count, ret_hash);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Looks for how far up the stack that was unwound reaches: all of its return addresses must be among the words. */
struct kernel_cache_search {
	const struct kernel_stack_top *at;
	const __u64 *callers; // leaf's first; KERNEL_DEPTH_MAX of them can be read
	__u32 count;          // of callers
	__u32 found;
	__u64 word_count; // up to the last caller
};

/*
 * An address that is found twice may have been left by an earlier call: the last one counts, so that the words have
 * the right one in any case. A tracer's replaced return address is not found.
 */
KERNEL_CACHE_INLINE long kernel_cache_look_at(struct kernel_cache_search *search, __u32 word)
{
	__u32 found = search->found, last = search->count - 1;
	__u64 value;

	if (word >= KERNEL_CACHE_WORDS || word >= search->at->word_count ||
	    last >= KERNEL_DEPTH_MAX)
		return 1;
	value = search->at->words[word];
	if (found <= last && value == search->callers[found & KERNEL_DEPTH_MAX])
		search->found = found + 1;
	if (value == search->callers[last])
		search->word_count = word + 1;
	return 0;
}
