/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Unwind tables: for each byte of a file's code the rule that finds the caller. The agent builds them from
// .eh_frame; BPF programs search them.
//
// A table is an array of words. The index comes first: word i is where the rows of the i-th block of code
// begin, and the word after the last block's is where they end. Rows follow, sorted, a word each: offset in
// the block and rule. A block's first row has offset 0, so each search finds one.
#pragma once

#include <linux/types.h>

/*
 * Code bytes per index word. Blocks are small, as each tick finds cold caches: the 20 or so rows of a block
 * lie in two cache lines. A row takes 4.4 bytes with its share of the index.
 */
#define TABLE_BLOCK_BITS  10
#define TABLE_BLOCK_BYTES (1U << TABLE_BLOCK_BITS)
#define TABLE_RULE_BITS   20
#define TABLE_RULE_MASK   ((1U << TABLE_RULE_BITS) - 1)

/* Pages of words, as many as a table needs. */
#define TABLE_PAGE_BITS  10
#define TABLE_PAGE_WORDS (1U << TABLE_PAGE_BITS)

/* One row per byte at most, so a block's rows lie in at most two pages. */
#define TABLE_BLOCK_ROWS_MAX TABLE_BLOCK_BYTES

struct table_page {
	__u32 words[TABLE_PAGE_WORDS];
};

/* Distinct rules of all tables. A Debian machine with PyTorch needs some 3,000. */
#define UNWIND_RULES_MAX 16384

/* The caller's sp before the call (DWARF: canonical frame address). */
enum cfa_rule {
	CFA_NO_TABLE = 0,    // no unwind information here
	CFA_END = 1,         // the thread's first function: the stack is complete
	CFA_REGISTER = 2,    // register + cfa_offset
	CFA_DEREF = 3,       // *(register + cfa_offset) + deref_offset
	CFA_PLT = 4,         // x86-64 PLT entries: sp + 8, and 8 more where pc % 16 >= cfa_offset
	CFA_SIGNAL = 5,      // all registers come from the kernel's signal frame
	CFA_UNSUPPORTED = 6, // unwind information that no known compiler writes
};

/* Where the caller's frame pointer or the return address is. */
enum saved_rule {
	SAVED_SAME = 0,        // in its register (return address on aarch64: lr)
	SAVED_AT_CFA = 1,      // in memory at CFA + offset
	SAVED_AT_FP = 2,       // in memory at the frame pointer register + offset
	SAVED_UNDEFINED = 3,   // lost; for the return address: as CFA_END
	SAVED_IN_REGISTER = 4, // in register number `offset`, as vfork()'s return address
	SAVED_AT_SP = 5, // in memory at sp + offset: large frames of aarch64, whose CFA is far away
};

#define RULE_PYTHON_EVAL    1  // code of the interpreter loop
#define RULE_PYTHON_OPCODE  2  // with it: an opcode's own function, called by the loop
#define RULE_SWITCHES_STACK 4  // the caller is on another stack, at any address
#define RULE_JIT            8  // JIT code, in no file
#define RULE_CLONED         16 // clone() returns here; in the new thread with 0

/* Registers have their DWARF numbers. */
struct unwind_rule {
	__u8 cfa; // enum cfa_rule
	__u8 cfa_register;
	__u8 saved; // enum saved_rule: of the frame pointer | of the return address << 4
	__u8 flags; // RULE_...
	__s32 cfa_offset;
	__s32 fp_offset;
	__s16 return_offset; // x86-64: -8 in compiled code
	__s16 deref_offset;
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct unwind_rule) == 16, "no padding: rules are compared as bytes");

/* DWARF register numbers. */
#define X86_REGISTER_FP    6
#define X86_REGISTER_SP    7
#define X86_REGISTER_COUNT 16
#define ARM64_REGISTER_FP  29
#define ARM64_REGISTER_LR  30
#define ARM64_REGISTER_SP  31
#define REGISTER_RESULT    0  // system call's result: rax, x0
#define UNWIND_REGISTERS   32 // of both architectures, a power of two
