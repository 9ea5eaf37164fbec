/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What becomes of a stack: the user's part is unwound and hashed, its body sent the first time it is
// seen, and the sample counted. For the sampler and for samples that are unwound later. Who includes
// it has defined read_user().
#pragma once

#include "bpf/add_count.bpf.h"
#include "bpf/maps.bpf.h"
#include "bpf/stacks/unwind_memory.bpf.h"
#include "bpf/wake.bpf.h"

/* A stack in work. Each program has its own, on each CPU where its runs overlap otherwise. */
struct stack_work {
	struct unwind unwind;
	union {
		struct stack_record record;
		__u8 record_bytes[sizeof(struct stack_record) +
				  STACK_DEPTH_MAX * sizeof(struct raw_frame)];
	};
};

static __always_inline struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	struct stack_work *work = (void *)unwind - offsetof(struct stack_work, unwind);

	// Tells the verifier what the caller has checked already.
	return at < STACK_DEPTH_MAX ? &work->record.trace.frames[at] : NULL;
}

/* Send the body in work->record if the agent does not have it. */
static __always_inline void send_stack(struct stack_work *work, __u64 now,
				       const struct raw_frame *leaf, __u32 frame_count, __u32 end,
				       const struct stack_hash *hash)
{
	struct stack_record *record = &work->record;
	__u64 flags = wake_flags(now);
	__u32 yes = 1;

	record->kind = RECORD_STACK;
	record->pad = 0;
	record->leaf = *leaf;
	record->trace.hash = *hash;
	record->trace.end = end;
	record->trace.frame_count = frame_count;
	// For the verifier: older kernels know no bound of what a bpf_loop() callback has written, nor that
	// a copy of it on the stack is the same number as the one that is compared. No call may come between.
	asm volatile("" : "+r"(frame_count));
	if (frame_count > STACK_DEPTH_MAX)
		return;
	if (bpf_ringbuf_output(&records, record,
			       sizeof(*record) + frame_count * sizeof(struct raw_frame), flags)) {
		// Not marked as known: it is sent again when it is seen again.
		count(COUNTER_RING_FULL);
		return;
	}
	count(COUNTER_STACKS_SENT);
	if (bpf_map_update_elem(&sent_stacks, hash, &yes, BPF_ANY))
		count(COUNTER_SENT_STACKS_FULL);
}

static __always_inline bool stack_is_sent(const struct stack_hash *hash)
{
	return bpf_map_lookup_elem(&sent_stacks, hash) != NULL;
}

/* bpf_loop() hands on a pointer to the stack, so that is where the pointer to the unwind lies. */
struct unwind_walk {
	struct unwind *unwind;
};

static long walk_unwind(__u32 index, struct unwind_walk *walk)
{
	return unwind_step(walk->unwind);
}

/* Is there anything to walk? The registers are set. */
static __always_inline bool begin_user_stack(struct unwind *unwind, bool is_64_bit)
{
	unwind_begin(unwind);
	if (!is_64_bit)
		unwind->end = STACK_END_COMPAT;
	else if (!unwind->pc)
		unwind->end = STACK_END_NO_REGISTERS;
	return unwind->end == UNWIND_CONTINUES;
}

static __always_inline void end_user_stack(struct unwind *unwind)
{
	if (unwind->end == UNWIND_CONTINUES)
		unwind->end = STACK_END_DEPTH;
	count_many(COUNTER_USER_FRAMES, unwind->frame_count + 1);
}

/*
 * Leaves the stack in work->unwind, with the reason why it ended. A global function: it is verified once,
 * not again for each way that leads to it.
 */
__attribute__((noinline)) int unwind_user_stack(struct stack_work *work, bool is_64_bit)
{
	struct unwind_walk walk = {};

	if (!work)
		return 0;
	walk.unwind = &work->unwind;
	if (begin_user_stack(&work->unwind, is_64_bit))
		bpf_loop(UNWIND_STEPS_MAX, walk_unwind, &walk, 0);
	end_user_stack(&work->unwind);
	return 0;
}

/*
 * Make the unwound stack a part of @key, and send its body if the agent does not have it.
 * @process_name is the kernel's comm of the main thread.
 */
static __always_inline void record_user_stack(struct stack_work *work, __u64 now,
					      const char *process_name, struct count_key *key)
{
	struct unwind *unwind = &work->unwind;

	key->user_leaf = unwind->leaf;
	key->user = stack_hash_finish_user(&unwind->hasher, &unwind->leaf, unwind->frame_count,
					   unwind->end);
	if (stack_is_sent(&key->user))
		return;
	work->record.trace.process = key->process;
	bpf_probe_read_kernel_str(work->record.process_name, sizeof(work->record.process_name),
				  process_name);
	send_stack(work, now, &unwind->leaf, unwind->frame_count, unwind->end, &key->user);
}
