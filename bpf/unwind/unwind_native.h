/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Unwinds compiled code by its file's unwind table. Included by unwind.h.
#pragma once

/* Larger than a main thread's default stack (8 MiB): not a frame. */
#define FRAME_BYTES_MAX (8ULL << 20)

#define TABLE_BLOCK_ROWS_USUAL 64 // compilers make 20

/* ---- finding the rule ------------------------------------------------------------------------ */

/* A row and the one that comes after it; TABLE_ROW_NONE: none in this block. */
struct table_rows {
	__u32 row;
	__u32 next;
};

#define TABLE_ROW_NONE (~0U)

/*
 * The last of the rows [at, limit) of @page that is not above @key, else row @at. There are at most @rows_max
 * rows, a constant. Rows compare as whole words: the high bits are the offset in the block. @after comes after them.
 */
UNWIND_INLINE struct table_rows table_page_search(const struct table_page *page, __u64 at,
						  __u64 limit, __u64 key, __u32 rows_max,
						  __u32 after)
{
	struct table_rows rows;
	__u64 has_next;

#pragma clang loop unroll(disable)
	for (__u32 step = rows_max / 2; step; step /= 2) {
		__u64 next = at + step, row;

		HIDE_FROM_COMPILER(next); // keep the bound
		row = page->words[next & (TABLE_PAGE_WORDS - 1)];
		at += step & mask_if_not_above(row, key) & mask_if_not_above(next + 1, limit);
	}
	HIDE_FROM_COMPILER(at);
	rows.row = page->words[at & (TABLE_PAGE_WORDS - 1)];
	has_next = mask_if_not_above(at + 2, limit);
	at++;
	HIDE_FROM_COMPILER(at);
	rows.next = (page->words[at & (TABLE_PAGE_WORDS - 1)] & has_next) | (after & ~has_next);
	return rows;
}

/* All bits if the row holds in all of the code around @key that a cached rule is for. */
UNWIND_INLINE __u64 table_row_fills_line(const struct table_rows *rows, __u64 key)
{
	__u64 line = key >> TABLE_RULE_BITS & ~(CODE_LINE_BYTES - 1);

	return mask_if_not_above(rows->row >> TABLE_RULE_BITS, line) &
	       mask_if_not_above(line + CODE_LINE_BYTES, rows->next >> TABLE_RULE_BITS);
}

/*
 * The rule for @key among the rows [first, limit) of a table. If they lie in two pages, the second page's first
 * row says which one to search.
 */
UNWIND_INLINE const struct unwind_rule *unwind_find_row(void *table, __u32 first, __u32 limit,
							__u32 key, __u64 *ret_fills_line)
{
	__u32 number = first >> TABLE_PAGE_BITS, at = first & (TABLE_PAGE_WORDS - 1);
	const struct table_page *page = unwind_table_page(table, number), *second;
	__u32 after = TABLE_ROW_NONE;
	struct table_rows rows;

	if (!page)
		return NULL;
	limit -= first - at;
	if (limit > TABLE_PAGE_WORDS) {
		second = unwind_table_page(table, number + 1);
		if (second && second->words[0] <= key) {
			page = second;
			at = 0;
			limit -= TABLE_PAGE_WORDS;
		} else {
			limit = TABLE_PAGE_WORDS;
			after = second ? second->words[0] : 0;
		}
	}
	rows = limit - at <= TABLE_BLOCK_ROWS_USUAL
		       ? table_page_search(page, at, limit, key, TABLE_BLOCK_ROWS_USUAL, after)
		       : table_page_search(page, at, limit, key, TABLE_BLOCK_ROWS_MAX, after);
	*ret_fills_line = table_row_fills_line(&rows, key);
	return unwind_rule_at(rows.row & TABLE_RULE_MASK);
}

/* The rule at @offset from the table's first block, and as table_row_fills_line(); NULL outside. */
UNWIND_INLINE const struct unwind_rule *unwind_find_rule(__u32 number, __u64 offset,
							 __u64 *ret_fills_line)
{
	__u32 block = offset >> TABLE_BLOCK_BITS, first, limit;
	void *table = unwind_table(number);
	const struct table_page *page;

	if (!table || offset >> 32)
		return NULL;
	page = unwind_table_page(table, block >> TABLE_PAGE_BITS);
	if (!page)
		return NULL;
	first = page->words[block & (TABLE_PAGE_WORDS - 1)];
	block++;
	if (!(block & (TABLE_PAGE_WORDS - 1))) {
		page = unwind_table_page(table, block >> TABLE_PAGE_BITS);
		if (!page)
			return NULL;
	}
	limit = page->words[block & (TABLE_PAGE_WORDS - 1)];
	if (limit <= first || limit - first > TABLE_BLOCK_ROWS_MAX)
		return NULL;
	offset &= TABLE_BLOCK_BYTES - 1;
	return unwind_find_row(table, first, limit,
			       (__u32)offset << TABLE_RULE_BITS | TABLE_RULE_MASK, ret_fills_line);
}

/* ---- signal frames --------------------------------------------------------------------------- */

#ifdef __TARGET_ARCH_arm64

/* arch/arm64/kernel/signal.c, struct rt_sigframe: siginfo, ucontext, then regs of its sigcontext. */
#define SIGNAL_REGISTERS_OFFSET (128 + 176 + 8)

/* arch/arm64/include/uapi/asm/sigcontext.h: x0..x30, sp, pc in DWARF order. */
struct signal_registers {
	__u64 x[32];
	__u64 pc;
};

UNWIND_INLINE void unwind_load_signal(struct unwind *unwind, const struct signal_registers *from)
{
#pragma unroll
	for (__u32 i = 0; i < 32; i++)
		unwind->registers[i] = from->x[i];
	unwind->pc = from->pc;
}

#else

/* arch/x86/include/uapi/asm/ucontext.h: flags, link and stack come before sigcontext. */
#define SIGNAL_REGISTERS_OFFSET 40

/* arch/x86/include/uapi/asm/sigcontext.h: struct sigcontext_64 */
struct signal_registers {
	__u64 r8, r9, r10, r11, r12, r13, r14, r15;
	__u64 rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
};

UNWIND_INLINE void unwind_load_signal(struct unwind *unwind, const struct signal_registers *from)
{
	__u64 *to = unwind->registers; // DWARF order: System V ABI for x86-64, figure 3.36

	to[0] = from->rax;
	to[1] = from->rdx;
	to[2] = from->rcx;
	to[3] = from->rbx;
	to[4] = from->rsi;
	to[5] = from->rdi;
	to[6] = from->rbp;
	to[7] = from->rsp;
	to[8] = from->r8;
	to[9] = from->r9;
	to[10] = from->r10;
	to[11] = from->r11;
	to[12] = from->r12;
	to[13] = from->r13;
	to[14] = from->r14;
	to[15] = from->r15;
	unwind->pc = from->rip;
}

#endif

_Static_assert(sizeof(struct signal_registers) <= sizeof(((struct stack_chunk *)0)->words),
	       "they are read into a window");

/*
 * In the code that a handler returns to, sp points to the kernel's signal frame. The interrupted frame may be on
 * another stack, so its sp cannot be checked; the number of steps ends a cycle of signal frames.
 */
UNWIND_INLINE long unwind_signal(struct unwind *unwind)
{
	// Not on the BPF stack: 512 bytes for a program and all that it calls.
	struct signal_registers *registers = (struct signal_registers *)unwind->chunk.words;

	unwind->chunk.start = STACK_CHUNK_NONE;
	if (read_user(registers, sizeof(*registers),
		      unwind->registers[REGISTER_SP] + SIGNAL_REGISTERS_OFFSET))
		return unwind_stop(unwind, STACK_END_FAULT);
	unwind_load_signal(unwind, registers);
	unwind->exact_pc = 1;
	unwind->all_registers = 1;
	return 0;
}

/* ---- one frame ------------------------------------------------------------------------------- */

struct caller {
	__u64 pc;
	__u64 sp;
	__u64 fp;
};

UNWIND_INLINE bool unwind_register_is_known(const struct unwind *unwind, __u32 number)
{
	return unwind->all_registers || number == REGISTER_SP || number == REGISTER_FP;
}

/* Returns 0, or 1 and the end. */
UNWIND_INLINE long unwind_find_cfa(struct unwind *unwind, const struct unwind_rule *rule,
				   __u64 *ret_cfa)
{
	__u32 number = rule->cfa_register & (UNWIND_REGISTERS - 1);
	__u64 cfa = unwind->registers[number];

	switch (rule->cfa) {
	case CFA_PLT:
		*ret_cfa = unwind->registers[REGISTER_SP] + 8;
		if ((__s32)(unwind->pc & 15) >= rule->cfa_offset)
			*ret_cfa += 8;
		return 0;
	case CFA_DEREF:
	case CFA_REGISTER:
		if (!unwind_register_is_known(unwind, number))
			return unwind_stop(unwind, STACK_END_UNSUPPORTED);
		cfa += (__s64)rule->cfa_offset;
		if (rule->cfa == CFA_DEREF) {
			if (read_user(&cfa, sizeof(cfa), cfa))
				return unwind_stop(unwind, STACK_END_FAULT);
			cfa += (__s64)rule->deref_offset;
		}
		*ret_cfa = cfa;
		return 0;
	case CFA_END:
		return unwind_stop(unwind, STACK_END_COMPLETE);
	case CFA_NO_TABLE:
		return unwind_stop(unwind, STACK_END_NO_TABLE);
	}
	return unwind_stop(unwind, STACK_END_UNSUPPORTED);
}

/* The part of the stack from @address on; returns as read_user(). */
UNWIND_INLINE long unwind_fill_chunk(struct stack_chunk *chunk, __u64 address)
{
	chunk->start = address & ~(__u64)(STACK_CHUNK_ALIGN - 1);
	return read_user(chunk->words, STACK_CHUNK_BYTES, chunk->start);
}

/* Reads a word of the stack through unwind->chunk. Returns negative if it is unreadable. */
UNWIND_INLINE long unwind_read_stack(struct unwind *unwind, __u64 address, __u64 *value)
{
	struct stack_chunk *chunk = &unwind->chunk;
	__u64 offset = address - chunk->start;

	if (offset >= STACK_CHUNK_BYTES || offset % 8) {
		long rc = unwind_fill_chunk(chunk, address);

		offset = address - chunk->start;
		if (rc || offset % 8) {
			// Into the chunk, too: a single way out halves the verifier's states.
			chunk->start = STACK_CHUNK_NONE;
			offset = 0;
			if (read_user(chunk->words, sizeof(*value), address))
				return -1;
		}
	}
	HIDE_FROM_COMPILER(offset); // keep the bound
	*value = chunk->words[offset / 8 & (STACK_CHUNK_WORDS - 1)];
	return 0;
}

/* A register's value in the caller. Returns 0, or 1 and the end. */
UNWIND_INLINE long unwind_find_saved(struct unwind *unwind, __u32 rule, __u64 cfa, __s64 offset,
				     __u64 *value)
{
	__u32 number = offset & (UNWIND_REGISTERS - 1);
	__u64 address = cfa;

	switch (rule) {
	case SAVED_SAME:
		return 0;
	case SAVED_AT_FP:
		address = unwind->registers[REGISTER_FP];
		break;
#ifdef __TARGET_ARCH_arm64
	case SAVED_AT_SP:
		address = unwind->registers[REGISTER_SP];
		break;
#endif
	case SAVED_AT_CFA:
		break;
	case SAVED_IN_REGISTER:
		if (!unwind_register_is_known(unwind, number))
			return unwind_stop(unwind, STACK_END_UNSUPPORTED);
		*value = unwind->registers[number];
		return 0;
	default:
		*value = 0;
		return 0;
	}
	if (unwind_read_stack(unwind, address + offset, value))
		return unwind_stop(unwind, STACK_END_FAULT);
	return 0;
}

/*
 * Continues in the caller. The stack grows down, so the caller must lie higher: this ends each cycle, too. Only
 * a leaf on aarch64 may have no frame.
 */
UNWIND_INLINE long unwind_go_to(struct unwind *unwind, const struct caller *caller)
{
	__u64 sp = unwind->registers[REGISTER_SP], frame_bytes = caller->sp - sp;
	__u64 pc = caller->pc & RETURN_ADDRESS_MASK;

	if (frame_bytes > FRAME_BYTES_MAX || (!frame_bytes && !unwind->all_registers) ||
	    caller->sp % 8)
		return unwind_stop(unwind, STACK_END_BAD_FRAME);
	// A thread started by hand has neither return address nor frame pointer.
	if (!pc && !caller->fp)
		return unwind_stop(unwind, STACK_END_COMPLETE);
	if (pc < CODE_ADDRESS_MIN || pc >= USER_ADDRESS_LIMIT)
		return unwind_stop(unwind, STACK_END_BAD_FRAME);
	unwind->pc = pc;
	unwind->registers[REGISTER_SP] = caller->sp;
	unwind->registers[REGISTER_FP] = caller->fp;
	unwind->exact_pc = 0;
	unwind->all_registers = 0;
	return 0;
}

/*
 * 0 in a thread that clone() has just made, whose stack begins with no return address; else all bits. Without a
 * branch: the verifier would follow both sides through all that comes after.
 */
UNWIND_INLINE __u64 unwind_has_caller(const struct unwind *unwind)
{
	__u64 result = unwind->registers[REGISTER_RESULT];

	result = (result | result >> 32) & 0xffffffff;
	return mask_if_not_above(unwind->rule.flags & RULE_CLONED, 0) |
	       mask_if_not_above(unwind->all_registers, 0) | mask_if_not_above(1, result);
}

/* Goes to the caller by unwind->rule. Returns 0, or 1 and the end. */
UNWIND_PART int unwind_by_rule(struct unwind *unwind)
{
	const struct unwind_rule *rule = &unwind->rule;
	struct caller caller = {};
	__u32 return_rule, fp_rule;
	__u64 kept;

	if (!unwind) // for the verifier
		return 1;
	return_rule = rule->saved >> 4;
	fp_rule = rule->saved & 15;
	caller.fp = unwind->registers[REGISTER_FP];
	if (rule->cfa == CFA_SIGNAL)
		return unwind_signal(unwind);
	if (unwind_find_cfa(unwind, rule, &caller.sp))
		return 1;
	if (return_rule == SAVED_UNDEFINED)
		return unwind_stop(unwind, STACK_END_COMPLETE);
#ifdef __TARGET_ARCH_arm64
	if (return_rule == SAVED_SAME && !unwind->all_registers)
		return unwind_stop(unwind, STACK_END_UNSUPPORTED);
	caller.pc = unwind->registers[ARM64_REGISTER_LR];
#endif
	// Lower address first: the chunk only moves up.
	if (unwind_find_saved(unwind, fp_rule, caller.sp, rule->fp_offset, &caller.fp) ||
	    unwind_find_saved(unwind, return_rule, caller.sp, rule->return_offset, &caller.pc))
		return 1;
	kept = unwind_has_caller(unwind);
	caller.pc &= kept;
	caller.fp &= kept;
	// The stack switch makes sp comparisons void: the depth limit ends a cycle.
	if (rule->flags & RULE_SWITCHES_STACK)
		unwind->registers[REGISTER_SP] = caller.sp - 16;
	return unwind_go_to(unwind, &caller);
}
