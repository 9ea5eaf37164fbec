/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Unwind tables as the unwinder reads them: for every byte of a file's code the rule that finds the
// caller from there. The agent compiles them from .eh_frame; the kernel programs only search.
//
// A table is an array of words. The first are the index: word i says where the rows of the i-th
// 1 KiB block of code begin, and the word after the last block's where they end. The rows follow,
// a word each, sorted: where in its block the row begins, and its rule. The first row of a block
// begins at 0, so that every search finds one.
#pragma once

#include <linux/types.h>

/*
 * Code bytes that share an index word. Small blocks, because each tick finds the caches cold: the
 * rows of one, 20 or so, lie in two cache lines. A row takes 4.4 bytes with its part of the index.
 */
#define TABLE_BLOCK_BITS  10
#define TABLE_BLOCK_BYTES (1U << TABLE_BLOCK_BITS)
#define TABLE_RULE_BITS   20
#define TABLE_RULE_MASK   ((1U << TABLE_RULE_BITS) - 1)

/* Words are kept in pages: a table takes as many as it needs. */
#define TABLE_PAGE_BITS  10
#define TABLE_PAGE_WORDS (1U << TABLE_PAGE_BITS)

/* Rows of one block: one for each byte. So they lie in two pages at most. */
#define TABLE_BLOCK_ROWS_MAX TABLE_BLOCK_BYTES

struct table_page {
	__u32 words[TABLE_PAGE_WORDS];
};

/* Distinct rules of all tables together. A Debian machine with PyTorch needs some 3,000. */
#define UNWIND_RULES_MAX 16384

/* The caller's stack pointer, as it was before the call (DWARF: the canonical frame address). */
enum cfa_rule {
	CFA_NO_TABLE = 0,    // no unwind information here
	CFA_END = 1,         // the thread's first function: the stack is complete
	CFA_REGISTER = 2,    // register + cfa_offset
	CFA_DEREF = 3,       // *(register + cfa_offset) + deref_offset
	CFA_PLT = 4,         // x86-64 PLT entries: sp + 8, and 8 more where pc % 16 >= cfa_offset
	CFA_SIGNAL = 5,      // all registers come from what the kernel laid down for a signal
	CFA_UNSUPPORTED = 6, // unwind information that no compiler we know writes
};

/* Where the caller's frame pointer or the return address is. */
enum saved_rule {
	SAVED_SAME = 0,        // in its register (return address on aarch64: lr)
	SAVED_AT_CFA = 1,      // in memory at CFA + offset
	SAVED_AT_FP = 2,       // in memory at the frame pointer register + offset
	SAVED_UNDEFINED = 3,   // lost; for the return address: as CFA_END
	SAVED_IN_REGISTER = 4, // in register number `offset` (return address in vfork and the like)
};

#define RULE_PYTHON_EVAL 1 // flag: this code is the interpreter's loop
#define RULE_PYTHON_OPCODE \
	2 // flag, with that one: one opcode of it, a function that the loop calls
#define RULE_SWITCHES_STACK 4  // flag: the caller is on another stack, which may lie anywhere
#define RULE_JIT            8  // flag: the code was made at run time and is in no file
#define RULE_CLONED         16 // flag: clone() comes back here; to the new thread with 0

/* 16 bytes. Registers are numbered as DWARF does on the machine. */
struct unwind_rule {
	__u8 cfa; // enum cfa_rule
	__u8 cfa_register;
	__u8 saved; // enum saved_rule of the frame pointer | of the return address << 4
	__u8 flags; // RULE_...
	__s32 cfa_offset;
	__s32 fp_offset;
	__s16 return_offset; // x86-64: -8 wherever a compiler wrote the code
	__s16 deref_offset;
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct unwind_rule) == 16, "no padding: rules are compared as bytes");

/* DWARF numbers of the registers that unwinding is about. */
#define X86_REGISTER_FP    6
#define X86_REGISTER_SP    7
#define X86_REGISTER_COUNT 16
#define ARM64_REGISTER_FP  29
#define ARM64_REGISTER_LR  30
#define ARM64_REGISTER_SP  31
#define REGISTER_RESULT    0  // of a system call: rax, x0
#define UNWIND_REGISTERS   32 // of the larger of both, a power of two
