// SPDX-License-Identifier: Apache-2.0
// Up to 3.9 CPython's loop links its frame to the thread some instructions after its entry, and unlinks it some
// before its return. At those instructions the thread's top frame is another call's. Nothing in memory shows it,
// only the pc does.
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
 * The ranges of the loop (x86-64, @size bytes of code at address @start) in which its frame is not linked, ascending.
 * Unrecognized code is left out. Returns their number.
 */
uint32_t python_frame_linkage_find(const uint8_t *code, size_t size, uint64_t start,
				   struct python_unlinked ranges[PYTHON_UNLINKED_MAX]);
