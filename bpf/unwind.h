/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The unwinder: one loop that takes a thread from its leaf to its first function, a frame a step,
// and asks at each pc which unwinder knows the code there.
//
// The same source runs in the kernel and in user space. Who includes it defines read_user() and
// calls unwind_step() until it returns 1, STACK_DEPTH_MAX times at most.
#pragma once

#include "stack.h"
#include "stack_hash.h"

/* Copy @size bytes from @address in the unwound process: 0, or negative if it is not readable. */
static long read_user(void *to, __u32 size, __u64 address);

/* The first page is never mapped (vm.mmap_min_addr), so nothing below is code. */
#define CODE_ADDRESS_MIN 0x1000ULL
/* User space ends here at the latest (x86-64 with five-level page tables); the kernel is above. */
#define USER_ADDRESS_LIMIT (1ULL << 56)

/* Not yet ended. Beyond all of enum end_tag. */
#define UNWIND_GOES_ON 0xffffffffU

/* Who knows how to step over the code at a pc. */
enum unwinder {
	UNWINDER_FRAME_POINTER = 1,
};

struct unwind {
	struct raw_frame *frames; // room for STACK_DEPTH_MAX; the leaf is not among them
	__u64 pc;
	__u64 sp; // nothing of the frames still to come lies below
	__u64 fp;
	struct stack_hasher hasher;
	__u32 frame_count;
	__u32 end; // enum end_tag, or UNWIND_GOES_ON
};

static inline __attribute__((always_inline)) long unwind_stop(struct unwind *unwind, __u32 end)
{
	unwind->end = end;
	return 1;
}

/* Keep one caller. Returns 0, or 1 (and the end) when there is no room. */
static inline __attribute__((always_inline)) long unwind_add(struct unwind *unwind, __u64 address,
							     __u32 tag, __u32 detail)
{
	__u32 at = unwind->frame_count;

	// One place stays free: with the leaf it is STACK_DEPTH_MAX frames.
	if (at >= STACK_DEPTH_MAX - 1)
		return unwind_stop(unwind, END_TAG_DEPTH);
	unwind->frames[at].address = address;
	unwind->frames[at].tag = tag;
	unwind->frames[at].detail = detail;
	unwind->frame_count = at + 1;
	stack_hash_add(&unwind->hasher, address, tag, detail);
	return 0;
}

#include "unwind_frame_pointer.h"

static inline __attribute__((always_inline)) enum unwinder unwinder_at(const struct unwind *unwind)
{
	(void)unwind;
	return UNWINDER_FRAME_POINTER;
}

static long unwind_step(__u32 index, struct unwind *unwind)
{
	(void)index;
	switch (unwinder_at(unwind)) {
	case UNWINDER_FRAME_POINTER:
		return unwind_frame_pointer(unwind);
	}
	return unwind_stop(unwind, END_TAG_NO_TABLE);
}
