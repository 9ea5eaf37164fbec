// SPDX-License-Identifier: Apache-2.0
// A file's unwind table: its rules by code address, as the words of bpf/unwind/table_layout.h. Shared by all processes
// that map the file.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"
#include "bpf/unwind/table_layout.h"

enum {
	UNWIND_TABLE_ROWS_MAX = 8 << 20,                          // Chromium has 3 million
	UNWIND_TABLE_BLOCKS_MAX = (2U << 30) / TABLE_BLOCK_BYTES, // 2 GiB of code
	UNWIND_MARKS_MAX = 1024,
	UNWIND_SEGMENTS_MAX = 8, // executable ones; linkers write one
};

/** A mark's flag: a function without rules, to be found by analysis. */
#define MARK_ANALYZE 0x80

/** A range of virtual addresses in the file, [start, limit), whose rules get @flags. */
struct unwind_mark {
	uint64_t start;
	uint64_t limit;
	uint8_t flags; // RULE_PYTHON_EVAL, or MARK_ANALYZE
};

/** Words refer to the table's own rules; unwind_builder.c replaces their numbers by shared ones. */
struct unwind_table {
	uint64_t first_address; // virtual address in the file where word 0's block begins
	uint32_t block_count;
	uint32_t word_count; // index and rows
	uint32_t *words;
	uint32_t rule_count;
	struct unwind_rule *rules;
	uint32_t row_count;
	uint32_t unsupported_count; // rows with CFA_UNSUPPORTED, before merging
};

void unwind_table_free(struct unwind_table *table);

/** The rule at a virtual address in the file; NULL outside. */
const struct unwind_rule *unwind_table_find(const struct unwind_table *table, uint64_t address);

/** An executable segment: [offset, offset + size) of the file is loaded at @address plus the load bias. */
struct unwind_segment {
	uint64_t offset;
	uint64_t address;
	uint64_t size;
};

/** The code that a table in the kernel covers: block_count blocks from first_address on. */
struct unwind_extent {
	uint64_t first_address; // virtual address in the file
	uint32_t block_count;   // 0: no unwind information, no table
	uint32_t segment_count;
	struct unwind_segment segments[UNWIND_SEGMENTS_MAX];
};

/** The file's first executable segments. Returns how many. */
uint32_t unwind_segments_of(const struct elf *elf,
			    struct unwind_segment ret_segments[UNWIND_SEGMENTS_MAX]);
