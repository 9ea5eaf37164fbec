// SPDX-License-Identifier: Apache-2.0
// The mappings of programs that are being started: exec maps its program before the process table
// hears of it, so they are kept by pid until it does. One thread.
#pragma once

#include <stdint.h>

#include "mapping.h"

enum {
	EXEC_MAPPINGS_MAX = 1024, // at a time; the oldest goes first. Some ten are usual.
};

struct begun_exec {
	uint32_t pid; // 0: taken
	uint64_t begun_ns;
	struct mapping_list *list;
};

/** A zeroed struct is valid and empty. */
struct exec_mappings {
	struct begun_exec execs[EXEC_MAPPINGS_MAX]; // a ring
	uint32_t first;
	uint32_t count;
};

/** Forget all. */
void exec_mappings_clear(struct exec_mappings *mappings);

/** Exec has begun in @pid. Forgets those of long ago that nobody took. */
void exec_mappings_begin(struct exec_mappings *mappings, uint32_t pid, uint64_t now_ns);

/** The list of the exec that has begun last in @pid, NULL: it is over, or there was none. */
struct mapping_list *exec_mappings_find(const struct exec_mappings *mappings, uint32_t pid,
					uint64_t now_ns);

/**
 * The exec that has begun first in @pid is over: its list, the caller's now, NULL: there was none.
 */
struct mapping_list *exec_mappings_take(struct exec_mappings *mappings, uint32_t pid,
					uint64_t now_ns);
