// SPDX-License-Identifier: Apache-2.0
// Where functions begin in a stripped file: what its entry code calls or passes on, addresses of code in its data, and what
// code with unwind information refers to.
#pragma once

#include "agent/unwind/function_starts.h"

enum {
	CODE_POINTERS_DATA_BYTES_MAX = 1 << 20,  // of data that is searched; busybox has 35 kB
	CODE_POINTERS_RELOCATIONS_MAX = 1 << 18, // ONNX Runtime has 38,000
	CODE_POINTERS_CODE_BYTES_MAX = 64 << 20, // of a segment of code; ONNX Runtime has 28 MB
	CODE_POINTERS_MAX = 1 << 14,
};

/**
 * Add functions within the sorted, disjoint @extents to @starts, and sort them, if the file is stripped: @symbols are its.
 * Those found in data or by code are guesses: a table of labels looks the same. x86-64 only. Returns 0 or -ENOMEM; what is
 * unreadable is left out.
 */
int code_pointers_read(const struct elf_symbols *symbols, const struct code_extent *extents,
		       uint32_t count, struct function_starts *starts);
