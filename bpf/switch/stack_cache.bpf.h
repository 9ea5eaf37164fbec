/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Whether a thread waits where it waited the last time: then its stack need not be unwound. It does if
// it is in the same system call with the same sp, the return addresses of its nearest callers, whose
// places on the stack the unwinder has found, are still there, those of the kernel, too, and so are its
// Python frames.
#pragma once

#include "bpf/stacks/registers.h"
#include "bpf/stacks/stack_work.bpf.h"
#include "bpf/switch/switch_python.bpf.h"

/* The stack's words that are looked at, from sp on: some ten frames of most threads. */
#define STACK_CACHE_WORDS 64
/* Return addresses among them that are compared; a power of two. */
#define STACK_CACHE_RETURNS 16

/*
 * One call waits here or there in the kernel. Its nearest return addresses lie at a distance from the
 * tracepoint's arguments, which are on the kernel's stack, too; where that begins is random in each
 * call.
 */
#define STACK_CACHE_KERNEL_WORDS   128
#define STACK_CACHE_KERNEL_RETURNS 2

struct kernel_return {
	__u64 address; // 0: none
	__u64 word;    // from the arguments on
};

/* What a place is known by. */
struct stack_cache {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 call;     // which system call, on what, and how it waits
	__u64 until_ns; // 0: nothing is remembered
	__u32 exec_id;
	__u32 return_count;
	__u8 return_words[STACK_CACHE_RETURNS]; // word numbers from sp on
	__u32 uses;         // hits, the older the less: the place with the fewest is given up
	__u32 is_truncated; // the user's stack did not reach the thread's first function
	__u64 returns;      // hash of what is in them
	struct kernel_return kernel[STACK_CACHE_KERNEL_RETURNS];
	struct python_frames python;
};

/* Where a thread stands at a switch; words only if they were asked for. */
struct switch_context {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 call;      // 0: in no system call
	__u64 kernel_at; // the tracepoint's arguments, on the kernel's stack
	__u64 words[STACK_CACHE_WORDS];
	struct python_hash python; // of.state 0: not looked at yet
};

#if defined(__TARGET_ARCH_x86)
static __always_inline void read_switch_context(struct switch_context *context,
						struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);
	__s64 number = regs->orig_ax;

	context->python.of.state = 0;
	context->pc = regs->ip;
	context->sp = regs->sp;
	context->fp = regs->bp;
	// The same call goes other ways in the kernel by what it is called with: descriptor, operation.
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
	context->fp = regs->regs[29];
	// x0 is the result's place: it has the first argument no more.
	context->call = regs->syscallno < 0 ? 0
					    : ((__u64)regs->syscallno + 1) ^ (regs->regs[1] << 40) ^
						      ((__u64)task->__state << 56);
}
#endif

/* Read @count words, or all. */
static __always_inline bool read_stack_words(struct switch_context *context, __u32 count)
{
	__u32 size = sizeof(context->words);

	if (count < STACK_CACHE_WORDS)
		size = (count & (STACK_CACHE_WORDS - 1)) * sizeof(context->words[0]);
	return !bpf_probe_read_user(context->words, size, (const void *)context->sp);
}

/* How many words the memo compares. */
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

/* Does the thread stand where it did? The words have been read. */
static __always_inline bool stack_cache_matches(const struct stack_cache *cache,
						struct switch_context *context, __u32 exec_id,
						__u64 now)
{
	return cache->until_ns > now && cache->call == context->call && cache->sp == context->sp &&
	       cache->pc == context->pc && cache->fp == context->fp && cache->exec_id == exec_id &&
	       cache->returns == hash_returns(cache, context) &&
	       kernel_returns_match(cache, context) &&
	       python_frames_match(&cache->python, &context->python);
}

/* ---- remembering ------------------------------------------------------------------------------ */

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
 * After a step of the unwinder: the return address it took lies below the caller's sp, on x86-64. On
 * aarch64 it lies where the rule said; comparing the word below sp is then merely a weaker check.
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
