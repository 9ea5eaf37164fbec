// SPDX-License-Identifier: Apache-2.0
// Up to 3.9 CPython's loop links its frame to the thread a few instructions after it is entered, and
// takes it off a few before it returns. In between the thread's frames belong to other calls of the
// loop, and nothing in memory says so: only where the pc is.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { PYTHON_UNLINKED_MAX = 4 };

/** Code addresses [start, limit). */
struct python_unlinked {
	uint64_t start;
	uint64_t limit;
};

/**
 * Where in the loop, whose @size bytes of x86-64 code begin at the address @start, its frame is not the
 * thread's top frame. What cannot be recognized is left out.
 * Returns the number of ranges, ascending.
 */
uint32_t python_frame_linkage_find(const uint8_t *code, size_t size, uint64_t start,
				   struct python_unlinked ranges[PYTHON_UNLINKED_MAX]);
