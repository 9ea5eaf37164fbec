// SPDX-License-Identifier: Apache-2.0
// Pieces of a file's code, and where functions begin in them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/elf_symbols.h"

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
