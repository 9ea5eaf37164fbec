// SPDX-License-Identifier: Apache-2.0
// When something was used last, for eviction of the least recently used.
#pragma once

#include <stdint.h>

struct last_use {
	uint64_t used_ns;
	uint32_t item; // its number among the caller's
};

/** For qsort(): the least recent one first. */
static inline int last_use_compare(const void *left, const void *right)
{
	const struct last_use *a = left, *b = right;

	return (a->used_ns > b->used_ns) - (a->used_ns < b->used_ns);
}
