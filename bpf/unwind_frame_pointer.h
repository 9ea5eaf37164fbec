/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Steps over code that keeps frame pointers: at fp lie the caller's fp and the return address, on
// x86-64 and aarch64 alike. Included by unwind.h.
#pragma once

/* A frame larger than a main thread's default stack (8 MiB) is no frame. */
#define FRAME_BYTES_MAX (8ULL << 20)

/* What a prologue with a frame pointer leaves in memory. */
struct frame_link {
	__u64 fp;
	__u64 return_address;
};

#ifdef __TARGET_ARCH_arm64
/* Signed return addresses carry their signature above the 48 bits of an address. */
#define RETURN_ADDRESS_MASK ((1ULL << 48) - 1)
#else
#define RETURN_ADDRESS_MASK (~0ULL)
#endif

/*
 * A chain ends properly where the ABI says that the first function's fp is 0. Everything else that
 * does not look like a frame means that some function on the way used the register otherwise.
 */
static inline __attribute__((always_inline)) long unwind_frame_pointer(struct unwind *unwind)
{
	struct frame_link link;
	__u64 fp = unwind->fp;

	if (!fp)
		return unwind_stop(unwind, END_TAG_COMPLETE);
	// The stack grows down, so callers lie higher: this also ends every cycle.
	if (fp % 8 || fp < unwind->sp || fp - unwind->sp > FRAME_BYTES_MAX ||
	    fp >= USER_ADDRESS_LIMIT)
		return unwind_stop(unwind, END_TAG_NO_FRAME_POINTER);
	if (read_user(&link, sizeof(link), fp))
		return unwind_stop(unwind, END_TAG_FAULT);

	link.return_address &= RETURN_ADDRESS_MASK;
	if (!link.return_address)
		return unwind_stop(unwind, END_TAG_COMPLETE);
	if (link.return_address < CODE_ADDRESS_MIN || link.return_address >= USER_ADDRESS_LIMIT)
		return unwind_stop(unwind, END_TAG_NO_FRAME_POINTER);

	unwind->pc = link.return_address;
	unwind->sp = fp + sizeof(link);
	unwind->fp = link.fp;
	return unwind_add(unwind, link.return_address, FRAME_TAG_NATIVE, 0);
}
