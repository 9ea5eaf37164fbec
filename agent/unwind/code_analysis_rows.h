// SPDX-License-Identifier: Apache-2.0
// Unwind rows of code without call frame information, by static analysis of its instructions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/function_starts.h"
#include "agent/unwind/unwind_rows.h"
#include "agent/unwind/unwind_table.h"

enum {
	// Code without rules around an analyzed function is analyzed with it: such functions call each other, as those
	// built into V8 do. It takes 20 ms.
	CODE_ANALYSIS_AROUND_BYTES = 128 << 10,
	CODE_ANALYSIS_COVERED_MAX = 96, // ranges with rows inside analyzed code
};

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
