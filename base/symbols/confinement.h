// SPDX-License-Identifier: Apache-2.0
// Confines a process that was forked to read hostile files: it may read its descriptors and answer.
// No other files, no children, no privileges, no core.
#pragma once

#include <stdint.h>

struct confinement {
	uint64_t memory_bytes; // its own and what it had when it was forked, beside mapped files
	uint32_t cpu_seconds;  // 0: its parent sees to that
};

/**
 * Confine the calling process, a child with one thread, which ends with the thread that forked it. The
 * @count descriptors (-1: none) that @files point to become 0, 1, 2, ...; all others are closed.
 */
void confine_process(const struct confinement *limits, int *const *files, uint32_t count);
