// SPDX-License-Identifier: Apache-2.0
// JIT functions of one process that keep no frame pointer, such as oneDNN's kernels in PyTorch and what Numba compiles. When a stack ends
// in one, its instructions are read from the process's memory and analyzed. x86-64 only. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"

enum {
	JIT_FUNCTIONS_MAX = 512, // per process; oneDNN has 1,024 kernels, most of them idle
	JIT_RANGES_MAX = 4096,   // per process: 32 mapping pages
};

struct jit_code;

/** NULL when out of memory. */
struct jit_code *jit_code_new(void);
void jit_code_free(struct jit_code *code);

/** Functions known; 0 for NULL. */
uint32_t jit_code_count(const struct jit_code *code);

/**
 * A stack was sampled at @pc in @mapping of process @pid. Analyzes the function around it; a new one takes some
 * milliseconds. Returns true if the rules changed.
 */
bool jit_code_analyze(struct jit_code *code, pid_t pid, const struct mapping *mapping, uint64_t pc);

/**
 * Analyze similar functions that no sample has hit yet, and check those known for changes. Takes some milliseconds
 * of honest code, and ends soon after the work in progress has spent its budget; the next call continues. Returns true if
 * the rules changed.
 */
bool jit_code_scan(struct jit_code *code, pid_t pid, const struct mapping_list *list);

/** Add @mapping, which is JIT code, to @pages. Returns 0 or -ENOMEM. */
int jit_code_add(const struct jit_code *code, const struct mapping *mapping,
		 struct mapping_pages *pages);
