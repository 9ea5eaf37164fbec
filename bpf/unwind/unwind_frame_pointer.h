/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Unwinds code that has no table but keeps frame pointers, as JIT code does: at fp lie the caller's fp and the
// return address, on x86-64 and aarch64. Included by unwind.h.
#pragma once

/* What a prologue with a frame pointer leaves in memory. */
struct frame_link {
	__u64 fp;
	__u64 return_address;
};

/*
 * The trampoline of CPython's -X perf (Python/asm_trampoline.S) has no frame pointer on x86-64: callees return
 * to its "add $8,%rsp; ret", and its own return address lies one word above sp.
 */
#define TRAMPOLINE_END      0xc308c48348ULL
#define TRAMPOLINE_END_MASK 0xffffffffffULL

UNWIND_INLINE int unwind_trampoline(const struct unwind *unwind, struct caller *caller)
{
	__u64 sp = unwind->registers[REGISTER_SP], code;

	if (REGISTER_SP != X86_REGISTER_SP || unwind->exact_pc)
		return 0;
	if (read_user(&code, sizeof(code), unwind->pc) ||
	    (code & TRAMPOLINE_END_MASK) != TRAMPOLINE_END ||
	    read_user(&caller->pc, sizeof(caller->pc), sp + 8))
		return 0;
	caller->sp = sp + 16;
	caller->fp = unwind->registers[REGISTER_FP];
	return 1;
}

UNWIND_INLINE long unwind_go_to_frame(struct unwind *unwind, struct caller *caller)
{
	if (unwind_go_to(unwind, caller) && unwind->end == STACK_END_BAD_FRAME)
		return unwind_stop(unwind, STACK_END_NO_FRAME_POINTER);
	return unwind->end != UNWIND_CONTINUES;
}

/*
 * By the ABI the first function's fp is 0. Anything else that is no frame means that a function on the way used
 * the register for something else.
 */
UNWIND_INLINE long unwind_frame_pointer(struct unwind *unwind)
{
	__u64 fp = unwind->registers[REGISTER_FP], sp = unwind->registers[REGISTER_SP];
	struct frame_link link;
	struct caller caller;

	if (unwind_trampoline(unwind, &caller))
		return unwind_go_to_frame(unwind, &caller);
	if (!fp)
		return unwind_stop(unwind, STACK_END_COMPLETE);
	// Callers lie higher on the stack. This also ends each cycle.
	if (fp % 8 || fp < sp || fp - sp > FRAME_BYTES_MAX || fp >= USER_ADDRESS_LIMIT)
		return unwind_stop(unwind, STACK_END_NO_FRAME_POINTER);
	if (read_user(&link, sizeof(link), fp))
		return unwind_stop(unwind, STACK_END_FAULT);
	caller.pc = link.return_address;
	caller.sp = fp + sizeof(link);
	caller.fp = link.fp;
	return unwind_go_to_frame(unwind, &caller);
}
