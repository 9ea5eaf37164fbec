// SPDX-License-Identifier: Apache-2.0
// Where functions begin in a stripped file: what its entry code calls or passes on, and addresses of code in its data.
#pragma once

#include "agent/unwind/code_analysis_rows.h"

enum {
	CODE_POINTERS_DATA_BYTES_MAX = 1 << 20, // of data that is searched; busybox has 35 kB
	CODE_POINTERS_RELOCATIONS_MAX = 1 << 16,
	CODE_POINTERS_MAX = 1 << 14,
};

/**
 * Add functions within the sorted, disjoint @extents to @starts, and sort them. Those found in data are guesses: a table of
 * labels looks the same. x86-64 only. Returns 0 or -ENOMEM; what is unreadable is left out.
 */
int code_pointers_read(const struct elf *elf, const struct code_extent *extents, uint32_t count,
		       struct function_starts *starts);
