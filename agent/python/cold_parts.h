// SPDX-License-Identifier: Apache-2.0
// The parts of a function that its compiler has put elsewhere, away from the code that runs often.
// Stripped files do not name them, but the function jumps there, and their unwind information begins in
// the middle of a frame. The file is hostile.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

enum {
	COLD_PARTS_MAX = 16,
	FUNCTION_BYTES_MAX = 4 << 20, // of the function that is searched; CPython's loop has 60 KiB
};

/** Virtual addresses in the file. */
struct cold_part {
	uint64_t start;
	uint64_t size;
};

/**
 * The other parts of the function at @start with @size bytes, at most COLD_PARTS_MAX. None where
 * the file has no .eh_frame_hdr.
 * Returns 0; -ENOEXEC if the function or the unwind information does not lie in the file; -E2BIG;
 * -ENOMEM; -errno when reading fails.
 */
int cold_parts_find(const struct elf *elf, uint64_t start, uint64_t size,
		    struct cold_part parts[COLD_PARTS_MAX], uint32_t *ret_count);
