/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A cache of one stack per wait site, so that a thread that blocks where it blocked before is not unwound
// again. A hit needs the same system call and sp, the same return addresses in the words where the
// unwinder found them, in user space and in the kernel, and the same Python frames.
#pragma once

#include "bpf/stacks/registers.h"
#include "bpf/stacks/stack_work.bpf.h"
#include "bpf/switch/kernel_search.h"
#include "bpf/switch/switch_python.bpf.h"

/* Words of the stack that are compared, from sp up: some ten frames of most threads. */
#define STACK_CACHE_WORDS 64
/* User return addresses that are compared; a power of two. */
#define STACK_CACHE_RETURNS 16

/*
 * One system call blocks at several places in the kernel: compare the nearest kernel return addresses,
 * too. They are found by their distance from the tracepoint's arguments, which lie on the same stack; the
 * stack's own start is randomized on each system call.
 */
#define STACK_CACHE_KERNEL_WORDS   128
#define STACK_CACHE_KERNEL_RETURNS 2

/* One cached stack: where its thread stood. */
struct stack_cache {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 call;     // hash of system call, arguments and task state
	__u64 until_ns; // 0: empty
	__u32 exec_id;
	__u32 return_count;
	__u8 return_words[STACK_CACHE_RETURNS]; // offsets from sp, in words
	__u32 uses;         // hits, decayed: the site with the fewest is evicted
	__u32 is_truncated; // the user stack did not reach the thread's first function
	__u64 returns;      // hash of those words
	struct kernel_return kernel[STACK_CACHE_KERNEL_RETURNS];
	struct python_frames python;
};

/* Where a thread stands at a switch; words are read on demand only. */
struct switch_context {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 call;      // 0: not in a system call
	__u64 kernel_at; // address of the tracepoint's arguments, on the kernel stack
	__u64 words[STACK_CACHE_WORDS];
	struct python_hash python; // of.state 0: not read yet
};

/* Farther above sp there is no frame of the thread. */
#define STACK_CACHE_FRAME_BYTES (16 << 20)

/*
 * Code without frame pointers keeps anything in the register: a counter there must not make each wait a miss. Only
 * an address on the stack can decide how it is unwound.
 */
static __always_inline __u64 frame_pointer_of(__u64 value, __u64 sp)
{
	return value - sp < STACK_CACHE_FRAME_BYTES ? value : 0;
}

#if defined(__TARGET_ARCH_x86)
static __always_inline void read_switch_context(struct switch_context *context,
						struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);
	__s64 number = regs->orig_ax;

	context->python.of.state = 0;
	context->pc = regs->ip;
	context->sp = regs->sp;
	context->fp = frame_pointer_of(regs->bp, regs->sp);
	// Descriptor and operation decide which way the call takes through the kernel.
	context->call = number < 0 ? 0
				   : ((__u64)number + 1) ^ (regs->di << 12) ^ (regs->si << 40) ^
					     ((__u64)task->__state << 56);
}
#else
static __always_inline void read_switch_context(struct switch_context *context,
						struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

	context->python.of.state = 0;
	context->pc = regs->pc;
	context->sp = regs->sp;
	context->fp = frame_pointer_of(regs->regs[29], regs->sp);
	// x0 holds the result by now, no longer the first argument.
	context->call = regs->syscallno < 0 ? 0
					    : ((__u64)regs->syscallno + 1) ^ (regs->regs[1] << 40) ^
						      ((__u64)task->__state << 56);
}
#endif

/* Reads @count words, or all. */
static __always_inline bool read_stack_words(struct switch_context *context, __u32 count)
{
	__u32 size = sizeof(context->words);

	if (count < STACK_CACHE_WORDS)
		size = (count & (STACK_CACHE_WORDS - 1)) * sizeof(context->words[0]);
	return !bpf_probe_read_user(context->words, size, (const void *)context->sp);
}

/* How many words the cache compares. */
static __always_inline __u32 stack_cache_words(const struct stack_cache *cache)
{
	__u32 last = cache->return_count - 1;

	return cache->return_count ? cache->return_words[last & (STACK_CACHE_RETURNS - 1)] + 1 : 1;
}

static __always_inline __u64 hash_returns(const struct stack_cache *cache,
					  const struct switch_context *context)
{
	__u64 hash = 0;

	for (__u32 i = 0; i < STACK_CACHE_RETURNS; i++) {
		if (i >= cache->return_count)
			break;
		hash = (hash ^ context->words[cache->return_words[i] & (STACK_CACHE_WORDS - 1)]) *
		       HASH_C1;
		hash ^= hash >> 29;
	}
	return hash;
}

static __always_inline bool kernel_returns_match(const struct stack_cache *cache,
						 const struct switch_context *context)
{
#pragma unroll
	for (__u32 i = 0; i < STACK_CACHE_KERNEL_RETURNS; i++) {
		const struct kernel_return *at = &cache->kernel[i];
		__u64 word = 0;

		if (at->address &&
		    (bpf_probe_read_kernel(&word, sizeof(word),
					   (const __u64 *)context->kernel_at + at->word) ||
		     word != at->address))
			return false;
	}
	return true;
}

/* In user space, though it may have expired. The words have been read. */
static __always_inline bool stack_cache_matches(const struct stack_cache *cache,
						struct switch_context *context, __u32 exec_id)
{
	return cache->until_ns && cache->call == context->call && cache->sp == context->sp &&
	       cache->pc == context->pc && cache->fp == context->fp && cache->exec_id == exec_id &&
	       cache->returns == hash_returns(cache, context) &&
	       python_frames_match(&cache->python, &context->python);
}

/* ---- filling ---------------------------------------------------------------------------------- */

static __always_inline void stack_cache_clear(struct stack_cache *cache)
{
	cache->until_ns = 0;
	cache->return_count = 0;
	cache->python.state = 0;
#pragma unroll
	for (__u32 i = 0; i < STACK_CACHE_KERNEL_RETURNS; i++)
		cache->kernel[i].address = 0;
}

/*
 * Called after each unwind step. On x86-64 the return address lies right below the caller's sp. On aarch64
 * it lies where the rule says; comparing the word below sp is just a weaker check there.
 */
static __always_inline void stack_cache_add_return(struct stack_cache *cache, __u64 sp,
						   __u64 caller_sp)
{
	__u64 word = (caller_sp - sizeof(__u64) - sp) / sizeof(__u64);
	__u32 count = cache->return_count;

	if (caller_sp <= sp || word >= STACK_CACHE_WORDS || count >= STACK_CACHE_RETURNS)
		return;
	if (count && cache->return_words[(count - 1) & (STACK_CACHE_RETURNS - 1)] == word)
		return;
	cache->return_words[count & (STACK_CACHE_RETURNS - 1)] = word;
	cache->return_count = count + 1;
}
