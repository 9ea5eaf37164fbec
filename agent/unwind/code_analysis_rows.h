// SPDX-License-Identifier: Apache-2.0
// Unwind rows of code without call frame information, by static analysis of its instructions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf_symbols.h"
#include "agent/unwind/unwind_rows.h"
#include "agent/unwind/unwind_table.h"

enum {
	// Code without rules around an analyzed function is analyzed with it: such functions call each other, as those
	// built into V8 do. It takes 20 ms.
	CODE_ANALYSIS_AROUND_BYTES = 128 << 10,
	CODE_ANALYSIS_COVERED_MAX = 96, // ranges with rows inside analyzed code
};

/** [start, limit), virtual addresses. */
struct code_extent {
	uint64_t start;
	uint64_t limit;
};

/** Sort @extents and join adjacent ones. Returns how many are left. */
uint32_t code_extents_join(struct code_extent *extents, uint32_t count);
/** Is @address within one of the sorted, disjoint @extents? */
bool code_extents_contain(const struct code_extent *extents, uint32_t count, uint64_t address);

/** A file's functions, sorted by start. */
struct function_starts {
	struct function_start {
		uint64_t address;
		bool never_returns;
		bool is_guess; // it may be within a function: only if nothing else leads there
	} * starts;
	uint32_t count, capacity;
};

/**
 * Functions named by @symbols within the sorted, disjoint @extents. Returns 0 or -ENOMEM; what is unreadable is left out. Free them with function_starts_deinit().
 */
int function_starts_read(const struct elf_symbols *symbols, const struct code_extent *extents,
			 uint32_t count, struct function_starts *ret_starts);
void function_starts_deinit(struct function_starts *starts);

/**
 * Add ranges to @rows for @code at virtual address @address, except where sorted rows, or those from number
 * @first_covered up to @covered_limit, cover it: at most CODE_ANALYSIS_COVERED_MAX of both. Functions begin at @starts
 * and where they call each other. Skips too much code. Returns 0 or -ENOMEM.
 */
int code_analysis_rows_add(const struct function_starts *starts, uint64_t address,
			   const uint8_t *code, size_t size, uint32_t first_covered,
			   uint32_t covered_limit, struct unwind_rows *rows);

/** The same of aarch64 code, which shows itself where functions begin: @starts may have none. */
int code_analysis_rows_add_arm64(const struct function_starts *starts, uint64_t address,
				 const uint8_t *code, size_t size, uint32_t first_covered,
				 uint32_t covered_limit, struct unwind_rows *rows);

/**
 * Add ranges to the sorted @rows for functions marked with MARK_ANALYZE that nothing covers, and for other functions
 * around them without rules, if that is little code. Returns 0, also if they cannot be analyzed; -ENOMEM; -errno.
 */
int code_analysis_rows_analyze(const struct elf *elf, const struct unwind_mark *marks,
			       uint32_t count, struct unwind_rows *rows);
