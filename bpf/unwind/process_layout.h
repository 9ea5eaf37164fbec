/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the agent publishes about a process for the unwinder: its code mappings and its Python interpreter.
#pragma once

#include "bpf/unwind/python.h"
#include "bpf/unwind/stack.h"
#include "bpf/unwind/table_layout.h"

/*
 * Executable mappings, sorted by start, in pages of 128; unused entries come last, with
 * MAPPING_START_UNUSED. With more than one page, page 0 is a root: its entry i starts where page i + 1 does.
 */
#define MAPPING_UNIT_BITS    TABLE_BLOCK_BITS // unit of sizes: tables end within pages
#define MAPPING_PAGE_BITS    7
#define MAPPING_PAGE_ENTRIES (1U << MAPPING_PAGE_BITS)
#define MAPPING_START_UNUSED (~0ULL >> 1) // above all addresses; the search needs bit 63 clear

/* How code in a mapping is unwound. */
enum mapping_code {
	MAPPING_CODE_UNKNOWN = 0, // table not loaded (yet)
	MAPPING_CODE_NONE = 1,    // a file without unwind information
	MAPPING_CODE_JIT = 2,     // JIT code: in no file, unwound by frame pointer
	MAPPING_CODE_RULE = 3,    // JIT code with one rule for the whole range, in `bias`
	MAPPING_CODE_TABLE = 16,  // this and above: table number + 16
};

struct mapping_code_range {
	__u64 bias;  // address of the block that the table's word 0 stands for
	__u32 units; // length, in blocks
	__u32 code;  // enum mapping_code, or table number + MAPPING_CODE_TABLE
};

struct mapping_page {
	__u64 starts[MAPPING_PAGE_ENTRIES];
	struct mapping_code_range ranges[MAPPING_PAGE_ENTRIES];
};

/*
 * The rule in `bias` of MAPPING_CODE_RULE. Low 31 bits: CFA offset from sp or fp; high 32 bits: offset of the
 * caller's fp from the CFA, 0: still in its register. All 0: by frame pointer, as MAPPING_CODE_JIT. Such a
 * range ends where the next one begins, as its size is rounded up.
 */
#define MAPPING_RULE_BY_FP      (1ULL << 31)
#define MAPPING_RULE_CFA_OFFSET (MAPPING_RULE_BY_FP - 1)
#define MAPPING_RULE(by_fp, cfa_offset, fp_offset) \
	(((by_fp) ? MAPPING_RULE_BY_FP : 0) | (__u64)(cfa_offset) | (__u64)(__u32)(fp_offset) << 32)

_Static_assert(sizeof(struct mapping_page) == 3072, "must fit an element of a hash map");

/* Per process: a root and the pages below it, 16,384 mappings. */
#define MAPPING_PAGES_MAX (1 + MAPPING_PAGE_ENTRIES)

/* Value of unwind_processes; the key is the kernel's tgid. */
struct process_unwind {
	struct process_key key; // stale entries of a reused pid do not match
	__u32 generation;       // part of the key of its mapping pages
	__u32 mapping_page_count;
	__u32 tables_pending; // mappings of MAPPING_CODE_UNKNOWN whose tables are being built
	__u32 pages_pid;      // part of that key: its own pid, or its parent's after a fork
	struct python_process python;
};

/* Pages get a new generation, then the process's entry is switched: no program sees a mix. */
struct mapping_page_key {
	__u32 pid;
	__u32 generation;
	__u32 page;
	__u32 pad;
};
