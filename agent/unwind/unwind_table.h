// SPDX-License-Identifier: Apache-2.0
// One file's unwind table: what its call frame information says, compiled to the words that
// bpf/unwind/table_layout.h describes. The same for all processes that map the file. The file is hostile.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"
#include "bpf/unwind/table_layout.h"

enum {
	UNWIND_TABLE_ROWS_MAX = 8 << 20,                          // Chromium has 3 million
	UNWIND_TABLE_BLOCKS_MAX = (2U << 30) / TABLE_BLOCK_BYTES, // 2 GiB of code
	UNWIND_MARKS_MAX = 1024,
	UNWIND_SEGMENTS_MAX = 8, // executable ones of a file; linkers write one
};

/** Not a rule's flag: the code is a function that has no rules; they are found by following it. */
#define MARK_ANALYZE 0x80

/** Code of a special kind: rules in [start, limit) (virtual addresses in the file) get @flags. */
struct unwind_mark {
	uint64_t start;
	uint64_t limit;
	uint8_t flags; // RULE_PYTHON_EVAL, or MARK_ANALYZE
};

/** Words refer to the table's own rules, which the loader gives the node's numbers. */
struct unwind_table {
	uint64_t first_address; // virtual address in the file that word 0's block begins at
	uint32_t block_count;
	uint32_t word_count; // index and rows
	uint32_t *words;
	uint32_t rule_count;
	struct unwind_rule *rules;
	uint32_t row_count;
	uint32_t unsupported_count; // rows before merging whose rule is CFA_UNSUPPORTED
};

void unwind_table_free(struct unwind_table *table);

/** The rule at a virtual address in the file; NULL outside of the table. */
const struct unwind_rule *unwind_table_find(const struct unwind_table *table, uint64_t address);

/** Executable bytes of a file: [offset, offset + size) is loaded at @address plus the load bias. */
struct unwind_segment {
	uint64_t offset;
	uint64_t address;
	uint64_t size;
};

/** What a table in the kernel covers: block_count blocks from first_address on. */
struct unwind_extent {
	uint64_t first_address; // virtual address in the file
	uint32_t block_count;   // 0: the file has no unwind information, and no table
	uint32_t segment_count;
	struct unwind_segment segments[UNWIND_SEGMENTS_MAX];
};

/** The file's executable segments, the first so many. Returns how many there are. */
uint32_t unwind_segments_of(const struct elf *elf,
			    struct unwind_segment ret_segments[UNWIND_SEGMENTS_MAX]);
