/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the unwinder must know of a process: where its code is mapped, and where its interpreter is.
// The agent publishes it when the process has been sampled.
#pragma once

#include "bpf/unwind/python.h"
#include "bpf/unwind/stack.h"
#include "bpf/unwind/table_layout.h"

/*
 * A process's executable mappings, sorted by start, in pages of 128; unused places are at the end
 * and start at MAPPING_START_UNUSED. If they fill more than one page, page 0 is a root: its entry i
 * starts where page i + 1 does, and only starts count there.
 */
#define MAPPING_UNIT_BITS    TABLE_BLOCK_BITS // of sizes: tables end within pages
#define MAPPING_PAGE_BITS    7
#define MAPPING_PAGE_ENTRIES (1U << MAPPING_PAGE_BITS)
#define MAPPING_START_UNUSED (~0ULL >> 1) // above all addresses, and the search wants bit 63 clear

/* What the unwinder does with code in a mapping. Tables' numbers begin above. */
enum mapping_code {
	MAPPING_CODE_UNKNOWN = 0, // its table is not loaded (yet)
	MAPPING_CODE_NONE = 1,    // a file without unwind information
	MAPPING_CODE_JIT = 2,     // no file: made at run time, unwound by frame pointer
	MAPPING_CODE_RULE = 3,    // the same, but `bias` is the rule that holds in all of it
	MAPPING_CODE_TABLE = 16,  // this and above: table number + 16
};

struct mapping_code_range {
	__u64 bias;  // a table's word 0 stands for the block at this address
	__u32 units; // how long the mapping is, in blocks
	__u32 code;  // enum mapping_code, or a table
};

struct mapping_page {
	__u64 starts[MAPPING_PAGE_ENTRIES];
	struct mapping_code_range ranges[MAPPING_PAGE_ENTRIES];
};

/*
 * A rule as the bias of MAPPING_CODE_RULE: the CFA is sp, or fp, + the low 31 bits, and the caller's fp
 * lies at CFA + the high 32 bits, or where they are 0 still in its register. 0: by frame pointer, as
 * MAPPING_CODE_JIT. Such a range ends where the next one begins; its size is rounded up.
 */
#define MAPPING_RULE_BY_FP      (1ULL << 31)
#define MAPPING_RULE_CFA_OFFSET (MAPPING_RULE_BY_FP - 1)
#define MAPPING_RULE(by_fp, cfa_offset, fp_offset) \
	(((by_fp) ? MAPPING_RULE_BY_FP : 0) | (__u64)(cfa_offset) | (__u64)(__u32)(fp_offset) << 32)

_Static_assert(sizeof(struct mapping_page) == 3072, "must fit an element of a hash map");

/* One process's: a root and what it can lead to, 16,384 mappings. */
#define MAPPING_PAGES_MAX (1 + MAPPING_PAGE_ENTRIES)

/* Value of the map of processes; its key is the kernel's tgid. */
struct process_unwind {
	struct process_key
		key;      // whose: an entry left behind by a former owner of the pid is not used
	__u32 generation; // part of the key of its mapping pages
	__u32 mapping_page_count;
	__u32 tables_pending; // mappings of code MAPPING_CODE_UNKNOWN whose tables are being built
	__u32 pages_pid;      // part of that key, too: its own pid, or its parent's after a fork
	struct python_process python;
};

/* Pages are written under a new generation, then the process's entry is switched: nobody sees a mix. */
struct mapping_page_key {
	__u32 pid;
	__u32 generation;
	__u32 page;
	__u32 pad;
};
