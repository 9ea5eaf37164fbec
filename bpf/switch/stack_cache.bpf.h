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
#define MEMO_WORDS 64
/* Return addresses among them that are compared; a power of two. */
#define MEMO_SLOTS 16

/*
 * One call waits here or there in the kernel. Its nearest return addresses lie at a distance from the
 * tracepoint's arguments, which are on the kernel's stack, too; where that begins is random in each
 * call.
 */
#define MEMO_KERNEL_WORDS 128
#define MEMO_KERNEL_SLOTS 2

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
	__u32 slot_count;
	__u8 slots[MEMO_SLOTS]; // word numbers from sp on
	__u32 uses;             // hits, the older the less: the place with the fewest is given up
	__u32 is_cut;           // the user's stack did not reach the thread's first function
	__u64 returns;          // hash of what is in them
	struct kernel_return kernel[MEMO_KERNEL_SLOTS];
	struct python_frames python;
};

/* Where a thread stands at a switch; words only if they were asked for. */
struct switch_place {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	__u64 call;      // 0: in no system call
	__u64 kernel_at; // the tracepoint's arguments, on the kernel's stack
	__u64 words[MEMO_WORDS];
	struct python_hash python; // of.state 0: not looked at yet
};

#if defined(__TARGET_ARCH_x86)
static __always_inline void find_place(struct switch_place *place, struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);
	__s64 number = regs->orig_ax;

	place->python.of.state = 0;
	place->pc = regs->ip;
	place->sp = regs->sp;
	place->fp = regs->bp;
	// The same call goes other ways in the kernel by what it is called with: descriptor, operation.
	place->call = number < 0 ? 0
				 : ((__u64)number + 1) ^ (regs->di << 12) ^ (regs->si << 40) ^
					   ((__u64)task->__state << 56);
}
#else
static __always_inline void find_place(struct switch_place *place, struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

	place->python.of.state = 0;
	place->pc = regs->pc;
	place->sp = regs->sp;
	place->fp = regs->regs[29];
	// x0 is the result's place: it has the first argument no more.
	place->call = regs->syscallno < 0 ? 0
					  : ((__u64)regs->syscallno + 1) ^ (regs->regs[1] << 40) ^
						    ((__u64)task->__state << 56);
}
#endif

/* Read @count words, or all. */
static __always_inline bool read_place(struct switch_place *place, __u32 count)
{
	__u32 size = sizeof(place->words);

	if (count < MEMO_WORDS)
		size = (count & (MEMO_WORDS - 1)) * sizeof(place->words[0]);
	return !bpf_probe_read_user(place->words, size, (const void *)place->sp);
}

/* How many words the memo compares. */
static __always_inline __u32 memo_words(const struct stack_cache *memo)
{
	__u32 last = memo->slot_count - 1;

	return memo->slot_count ? memo->slots[last & (MEMO_SLOTS - 1)] + 1 : 1;
}

static __always_inline __u64 hash_returns(const struct stack_cache *memo,
					  const struct switch_place *place)
{
	__u64 hash = 0;

	for (__u32 i = 0; i < MEMO_SLOTS; i++) {
		if (i >= memo->slot_count)
			break;
		hash = (hash ^ place->words[memo->slots[i] & (MEMO_WORDS - 1)]) * HASH_C1;
		hash ^= hash >> 29;
	}
	return hash;
}

static __always_inline bool kernel_returns_fit(const struct stack_cache *memo,
					       const struct switch_place *place)
{
#pragma unroll
	for (__u32 i = 0; i < MEMO_KERNEL_SLOTS; i++) {
		const struct kernel_return *at = &memo->kernel[i];
		__u64 word = 0;

		if (at->address &&
		    (bpf_probe_read_kernel(&word, sizeof(word),
					   (const __u64 *)place->kernel_at + at->word) ||
		     word != at->address))
			return false;
	}
	return true;
}

/* Does the thread stand where it did? The words have been read. */
static __always_inline bool memo_fits(const struct stack_cache *memo, struct switch_place *place,
				      __u32 exec_id, __u64 now)
{
	return memo->until_ns > now && memo->call == place->call && memo->sp == place->sp &&
	       memo->pc == place->pc && memo->fp == place->fp && memo->exec_id == exec_id &&
	       memo->returns == hash_returns(memo, place) && kernel_returns_fit(memo, place) &&
	       python_frames_fit(&memo->python, &place->python);
}

/* ---- remembering ------------------------------------------------------------------------------ */

static __always_inline void memo_forget(struct stack_cache *memo)
{
	memo->until_ns = 0;
	memo->slot_count = 0;
	memo->python.state = 0;
#pragma unroll
	for (__u32 i = 0; i < MEMO_KERNEL_SLOTS; i++)
		memo->kernel[i].address = 0;
}

/*
 * After a step of the unwinder: the return address it took lies below the caller's sp, on x86-64. On
 * aarch64 it lies where the rule said; comparing the word below sp is then merely a weaker check.
 */
static __always_inline void memo_take_step(struct stack_cache *memo, __u64 sp, __u64 caller_sp)
{
	__u64 word = (caller_sp - sizeof(__u64) - sp) / sizeof(__u64);
	__u32 count = memo->slot_count;

	if (caller_sp <= sp || word >= MEMO_WORDS || count >= MEMO_SLOTS)
		return;
	if (count && memo->slots[(count - 1) & (MEMO_SLOTS - 1)] == word)
		return;
	memo->slots[count & (MEMO_SLOTS - 1)] = word;
	memo->slot_count = count + 1;
}
