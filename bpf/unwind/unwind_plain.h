/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A shortcut for most native callers: their rule is known and only adds to sp or fp. Whatever else there is is left
// to unwind_step(), which would do the same for these, too. Included by unwind.h.
#pragma once

/* The first word of a plain rule, without the bits that may be either. REGISTER_SP has all bits of REGISTER_FP. */
#define PLAIN_BY_SP    ((REGISTER_SP ^ REGISTER_FP) << 8)
#define PLAIN_SAVES_FP (SAVED_AT_CFA << 16)
#define PLAIN_IS_JIT   (RULE_JIT << 24)
#define PLAIN_EITHER   (PLAIN_BY_SP | PLAIN_SAVES_FP | PLAIN_IS_JIT)
#define PLAIN_RULE     (CFA_REGISTER | REGISTER_FP << 8 | SAVED_AT_CFA << 20)
/* What the interpreter loop's rule may have beside, when its frame has been replaced. */
#define PLAIN_LOOP ((__u64)(RULE_PYTHON_EVAL | RULE_PYTHON_OPCODE) << 24)

_Static_assert((REGISTER_SP & REGISTER_FP) == REGISTER_FP && !(SAVED_SAME & SAVED_AT_CFA),
	       "a bit each");

/* As unwind_read_stack(), but there is no fallback for the end of the stack. */
UNWIND_INLINE bool plain_read_stack(struct stack_chunk *chunk, __u64 address, __u64 *value)
{
	__u64 offset = address - chunk->start;

	if (offset >= STACK_CHUNK_BYTES) {
		if (unwind_fill_chunk(chunk, address)) {
			chunk->start = STACK_CHUNK_NONE;
			return false;
		}
		offset = address - chunk->start;
	}
	if (offset % 8)
		return false;
	HIDE_FROM_COMPILER(offset); // keep the bound
	*value = chunk->words[offset / 8 & (STACK_CHUNK_WORDS - 1)];
	return true;
}

/*
 * Stores the frame at the pc, a return address, unless Python frames have replaced it, and goes to its caller. False:
 * nothing has changed but the chunk, and it is a case for the rest of unwind_step(). A function with a stack of its
 * own: 6.1 allows 512 bytes to all that call each other.
 */
static UNWIND_APART bool unwind_plain_frame(struct unwind *unwind)
{
	__u64 address = unwind->pc - 1, sp = unwind->registers[REGISTER_SP];
	__u64 first = 0, second = 0, cfa, pc, fp = unwind->registers[REGISTER_FP];
	__u32 head, tag;

	// A return address that a uretprobe has replaced must be looked for.
	if (unwind->exact_pc || unwind->all_registers || unwind->pending_count)
		return false;
	if (unwind->frame_is_kept) {
		const __u64 *rule = (const __u64 *)&unwind->rule;

		first = rule[0] & ~PLAIN_LOOP;
		second = rule[1];
	} else if (!unwind_find_cached_rule(unwind, address, &first, &second)) {
		return false;
	}
	head = (__u32)first;
	if ((head & ~PLAIN_EITHER) != PLAIN_RULE)
		return false;
	cfa = (head & PLAIN_BY_SP ? sp : fp) + (__s64)(__s32)(first >> 32);
	if (cfa - sp - 1 >= FRAME_BYTES_MAX || cfa % 8)
		return false;
	// Lower address first: the chunk only moves up.
	if ((head & PLAIN_SAVES_FP &&
	     !plain_read_stack(&unwind->chunk, cfa + (__s64)(__s32)second, &fp)) ||
	    !plain_read_stack(&unwind->chunk, cfa + (__s64)(__s16)(second >> 32), &pc))
		return false;
	pc &= RETURN_ADDRESS_MASK;
	if (pc < CODE_ADDRESS_MIN || pc >= USER_ADDRESS_LIMIT)
		return false;
	tag = head & PLAIN_IS_JIT ? FRAME_TAG_JIT : FRAME_TAG_NATIVE;
	if (!unwind->frame_is_kept && unwind_add(unwind, address, tag, 0))
		return false;
	unwind->frame_is_kept = 0;
	unwind->pc = pc;
	unwind->registers[REGISTER_SP] = cfa;
	unwind->registers[REGISTER_FP] = fp;
	return true;
}
