// SPDX-License-Identifier: Apache-2.0
// Cold parts of a function: code that runs rarely, which its compiler moved away from the hot code (".cold"). A
// stripped file has no symbols for them, but the function jumps there, and their unwind information begins in the
// middle of a frame. The file is hostile.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

enum {
	COLD_PARTS_MAX = 16,
	FUNCTION_BYTES_MAX = 4 << 20, // of the function; CPython's interpreter loop has 60 KiB
};

/** Virtual addresses of the file. */
struct cold_part {
	uint64_t start;
	uint64_t size;
};

/**
 * The cold parts of the function of @size bytes at @start, at most COLD_PARTS_MAX. None in a file without
 * .eh_frame_hdr.
 * Returns 0; -ENOEXEC if the function or the unwind information does not lie in the file; -E2BIG;
 * -ENOMEM; -errno when reading fails.
 */
int cold_parts_find(const struct elf *elf, uint64_t start, uint64_t size,
		    struct cold_part parts[COLD_PARTS_MAX], uint32_t *ret_count);
