/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The 128-bit hash of a stack, fed frame by frame. It mixes as MurmurHash3 for x64 does (Austin Appleby,
// public domain), a 16-byte block per frame. It does not resist forged addresses: the process's key is the
// seed, so a process spoils its own profile only.
#pragma once

#include "bpf/unwind/stack.h"

struct stack_hasher {
	__u64 high;
	__u64 low;
};

#define HASH_C1 0x87c37b91114253d5ULL
#define HASH_C2 0x4cf5ad432745937fULL

static inline __attribute__((always_inline)) __u64 hash_rotate(__u64 word, __u32 bits)
{
	return (word << bits) | (word >> (64 - bits));
}

static inline __attribute__((always_inline)) void hash_block(struct stack_hasher *hasher,
							     __u64 first, __u64 second)
{
	hasher->high ^= hash_rotate(first * HASH_C1, 31) * HASH_C2;
	hasher->high = (hash_rotate(hasher->high, 27) + hasher->low) * 5 + 0x52dce729;
	hasher->low ^= hash_rotate(second * HASH_C2, 33) * HASH_C1;
	hasher->low = (hash_rotate(hasher->low, 31) + hasher->high) * 5 + 0x38495ab5;
}

static inline __attribute__((always_inline)) __u64 hash_finish_word(__u64 word)
{
	word = (word ^ (word >> 33)) * 0xff51afd7ed558ccdULL;
	word = (word ^ (word >> 33)) * 0xc4ceb9fe1a85ec53ULL;
	return word ^ (word >> 33);
}

/* Addresses are a process's own: its key is the seed. Zero for kernel stacks. */
static inline __attribute__((always_inline)) void stack_hash_begin(
	struct stack_hasher *hasher, const struct process_key *process)
{
	hasher->high = 0;
	hasher->low = 0;
	hash_block(hasher, process->pid | (__u64)process->exec_id << 32, process->start_ns);
}

static inline __attribute__((always_inline)) void stack_hash_add(struct stack_hasher *hasher,
								 __u64 address, __u32 tag,
								 __u32 detail)
{
	hash_block(hasher, address, tag | (__u64)detail << 32);
}

/* Never {0, 0}, which means "no stack". */
static inline __attribute__((always_inline)) struct stack_hash stack_hash_finish(
	const struct stack_hasher *hasher, __u32 frame_count, __u32 end)
{
	struct stack_hash hash = { hasher->high ^ frame_count, hasher->low ^ end };

	hash.high += hash.low;
	hash.low += hash.high;
	hash.high = hash_finish_word(hash.high);
	hash.low = hash_finish_word(hash.low);
	hash.high += hash.low;
	hash.low += hash.high;
	if (!hash.high && !hash.low)
		hash.low = 1;
	return hash;
}

/*
 * In place of the hash of a user stack that was not captured, though there is one: without it a kernel stack would pass for the whole
 * stack. No record is sent for it. Frames could have this hash as they could have any other's.
 */
#define STACK_HASH_NOT_SAMPLED_LOW 0x736b6361747374ffULL

static inline __attribute__((always_inline)) struct stack_hash stack_hash_not_sampled(void)
{
	return (struct stack_hash){ .low = STACK_HASH_NOT_SAMPLED_LOW };
}

static inline __attribute__((always_inline)) int stack_hash_is_not_sampled(
	const struct stack_hash *hash)
{
	return !hash->high && hash->low == STACK_HASH_NOT_SAMPLED_LOW;
}

#define LEAF_PAGE_BITS 12

/*
 * A user stack truncated at its leaf has no callers: hash the leaf's page instead, so that the agent sees
 * each place where unwinding stopped, and can analyze the code there.
 */
static inline __attribute__((always_inline)) struct stack_hash stack_hash_finish_user(
	struct stack_hasher *hasher, const struct raw_frame *leaf, __u32 frame_count, __u32 end)
{
	if (!frame_count && end != STACK_END_COMPLETE)
		stack_hash_add(hasher, leaf->address >> LEAF_PAGE_BITS, leaf->tag, 0);
	return stack_hash_finish(hasher, frame_count, end);
}
