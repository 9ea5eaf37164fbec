// SPDX-License-Identifier: Apache-2.0
// Unwind rows for code without call frame information, by following its instructions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf_symbols.h"
#include "agent/unwind/unwind_rows.h"
#include "agent/unwind/unwind_table.h"

enum {
	// Code without rules before and behind a function that is followed, to be followed with it: such
	// functions call each other, as V8's built-in ones do. It takes 20 ms.
	CODE_ANALYSIS_AROUND_BYTES = 128 << 10,
	CODE_ANALYSIS_TAKEN_MAX = 96, // ranges with rows within code that is followed
};

/** Code from one virtual address up to another. */
struct code_extent {
	uint64_t start;
	uint64_t limit;
};

/** Sort @extents and join those that touch each other. Returns how many are left. */
uint32_t code_extents_join(struct code_extent *extents, uint32_t count);

/** Functions of a file, sorted by where they begin. */
struct function_starts {
	struct function_start {
		uint64_t address;
		bool never_returns;
	} * starts;
	uint32_t count, capacity;
};

/**
 * All that @symbols name within @extents, which are sorted and apart from each other. None, if the file
 * is for another machine than x86-64. Returns 0 or -ENOMEM; what cannot be read is left out.
 * function_starts_deinit() it.
 */
int function_starts_read(const struct elf_symbols *symbols, const struct code_extent *extents,
			 uint32_t count, struct function_starts *ret_starts);
void function_starts_deinit(struct function_starts *starts);

/**
 * Add ranges to @rows for the @size bytes of @code at virtual address @address, but not over those that
 * are sorted, nor over those from number @first_taken up to @taken_limit: CODE_ANALYSIS_TAKEN_MAX of both.
 * Functions begin where @starts say, and where they call each other. Does nothing for more code than is
 * worth it. Returns 0 or -ENOMEM.
 */
int code_analysis_rows_add(const struct function_starts *starts, uint64_t address,
			   const uint8_t *code, size_t size, uint32_t first_taken,
			   uint32_t taken_limit, struct unwind_rows *rows);

/**
 * Add ranges to @rows, which are sorted, for the functions that are marked with MARK_ANALYZE, unless they
 * are covered; and for all others around such a function that have no rules either, if that is little
 * code. Returns 0, also if they cannot be followed; -ENOMEM; -errno when reading fails.
 */
int code_analysis_rows_follow(const struct elf *elf, const struct unwind_mark *marks,
			      uint32_t count, struct unwind_rows *rows);
