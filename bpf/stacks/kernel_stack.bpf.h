/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The kernel part of a stack: hashed, and sent the first time it is seen.
#pragma once

#include "bpf/stacks/stack_work.bpf.h"

/* From the kernel's unwinder, leaf first; one entry more than it fills. */
struct kernel_addresses {
	__u64 at[KERNEL_DEPTH_MAX + 1];
};

/* bpf_loop() passes a pointer to the BPF stack only. */
struct kernel_walk {
	struct kernel_addresses *addresses;
	struct stack_work *work;
	struct stack_hasher hasher;
	__u32 first; // index of the first caller
	__u32 pad;
};

static long hash_kernel_frame(__u32 index, struct kernel_walk *walk)
{
	__u32 at = walk->first + index;

	if (at > KERNEL_DEPTH_MAX)
		return 1;
	stack_hash_add(&walk->hasher, walk->addresses->at[at], FRAME_TAG_KERNEL, 0);
	return 0;
}

static long write_kernel_frame(__u32 index, struct kernel_walk *walk)
{
	__u32 at = walk->first + index;

	if (at > KERNEL_DEPTH_MAX || index >= KERNEL_DEPTH_MAX)
		return 1;
	walk->work->record.trace.frames[index].address = walk->addresses->at[at];
	walk->work->record.trace.frames[index].tag = FRAME_TAG_KERNEL;
	walk->work->record.trace.frames[index].detail = 0;
	return 0;
}

/*
 * Returns the hash of @leaf_address and its @frame_count callers, in @addresses from @first on. Sends the
 * stack trace if it is new.
 */
static __always_inline struct stack_hash record_kernel_stack(struct stack_work *work, __u64 now,
							     struct kernel_addresses *addresses,
							     __u64 leaf_address, __u32 first,
							     __u32 frame_count, __u32 end)
{
	struct kernel_walk walk = { .addresses = addresses, .work = work, .first = first };
	struct raw_frame leaf = { .address = leaf_address, .tag = FRAME_TAG_KERNEL };
	struct process_key nobody = {};
	struct stack_hash hash;

	stack_hash_begin(&walk.hasher, &nobody);
	bpf_loop(frame_count, hash_kernel_frame, &walk, 0);
	hash = stack_hash_finish(&walk.hasher, frame_count, end);
	if (stack_is_sent(&hash))
		return hash;
	bpf_loop(frame_count, write_kernel_frame, &walk, 0);
	work->record.trace.process = nobody;
	work->record.process_name[0] = 0;
	send_stack(work, now, &leaf, frame_count, end, &hash);
	return hash;
}
