/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Unwinds a user stack, hashes it, and sends it the first time it is seen. The program defines read_user().
#pragma once

#include "bpf/add_count.bpf.h"
#include "bpf/maps.bpf.h"
#include "bpf/stacks/unwind_memory.bpf.h"
#include "bpf/wake.bpf.h"

/* A stack being unwound. One per program, and per CPU where runs may overlap. */
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

	// The caller has checked it; the verifier has not seen that.
	return at < STACK_DEPTH_MAX ? &work->record.trace.frames[at] : NULL;
}

/* Sends work->record. */
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
	// For older verifiers: the count comes from a bpf_loop() callback and has no known bound. Check the very
	// register that is passed below; no call may come between.
	asm volatile("" : "+r"(frame_count));
	if (frame_count > STACK_DEPTH_MAX)
		return;
	if (bpf_ringbuf_output(&records, record,
			       sizeof(*record) + frame_count * sizeof(struct raw_frame), flags)) {
		// Not marked as sent: the next sample sends it again.
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

/* bpf_loop() passes a pointer to the BPF stack only. */
struct unwind_walk {
	struct unwind *unwind;
};

static long walk_unwind(__u32 index, struct unwind_walk *walk)
{
	return unwind_step(walk->unwind);
}

/* Returns whether there is anything to unwind. Registers are set. */
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

/* Leaves the stack in work->unwind. A global function: verified once, not for each caller. */
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

/* Sets the user stack of @key; sends it if it is new. @process_name: comm of the main thread. */
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
