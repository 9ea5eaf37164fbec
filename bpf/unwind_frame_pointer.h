/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Steps over code that has no table but keeps frame pointers, as code made at run time does: at fp
// lie the caller's fp and the return address, on x86-64 and aarch64 alike. Included by unwind.h.
#pragma once

/* What a prologue with a frame pointer leaves in memory. */
struct frame_link {
	__u64 fp;
	__u64 return_address;
};

/*
 * A chain ends properly where the ABI says that the first function's fp is 0. Everything else that
 * does not look like a frame means that some function on the way used the register otherwise.
 */
UNWIND_INLINE long unwind_frame_pointer(struct unwind *unwind)
{
	__u64 fp = unwind->registers[REGISTER_FP], sp = unwind->registers[REGISTER_SP];
	struct frame_link link;
	struct caller caller;

	if (!fp)
		return unwind_stop(unwind, END_TAG_COMPLETE);
	// The stack grows down, so callers lie higher: this also ends every cycle.
	if (fp % 8 || fp < sp || fp - sp > FRAME_BYTES_MAX || fp >= USER_ADDRESS_LIMIT)
		return unwind_stop(unwind, END_TAG_NO_FRAME_POINTER);
	if (read_user(&link, sizeof(link), fp))
		return unwind_stop(unwind, END_TAG_FAULT);
	caller.pc = link.return_address;
	caller.sp = fp + sizeof(link);
	caller.fp = link.fp;
	if (unwind_go_to(unwind, &caller) && unwind->end == END_TAG_BAD_FRAME)
		return unwind_stop(unwind, END_TAG_NO_FRAME_POINTER);
	return unwind->end != UNWIND_GOES_ON;
}
