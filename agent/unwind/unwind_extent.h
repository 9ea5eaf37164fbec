// SPDX-License-Identifier: Apache-2.0
// Which code of a file a table is about, and where that is loaded.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

enum {
	UNWIND_SEGMENTS_MAX =
		8, // executable segments of a file that are looked at; linkers write one
};

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
