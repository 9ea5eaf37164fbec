// SPDX-License-Identifier: Apache-2.0
// Functions that one process has made at run time and that keep no frame pointer, as oneDNN's kernels
// in PyTorch: what their instructions do to the stack, read from the process's memory when a stack was
// seen there. x86-64 only. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"

enum {
	JIT_FUNCTIONS_MAX = 512, // of one process; oneDNN keeps 1,024 kernels, most of them idle
	JIT_RANGES_MAX = 4096,   // of one process: 32 mapping pages
};

struct jit_code;

/** NULL when out of memory. */
struct jit_code *jit_code_new(void);
void jit_code_free(struct jit_code *code);

/** How many functions are known; 0 for NULL. */
uint32_t jit_code_count(const struct jit_code *code);

/**
 * A stack was seen at @pc in @mapping of process @pid, which is code made at run time. Reads the
 * function around it, some milliseconds for a new one. Returns true if something was learnt.
 */
bool jit_code_analyze(struct jit_code *code, pid_t pid, const struct mapping *mapping, uint64_t pc);

/**
 * Look at the other places where such functions would lie, and whether those that are known have
 * changed. Takes some milliseconds at most; the rest comes next time. Returns true if there is news.
 */
bool jit_code_scan(struct jit_code *code, pid_t pid, const struct mapping_list *list);

/** Add @mapping, which is code made at run time, to @pages. Returns 0 or -ENOMEM. */
int jit_code_add(const struct jit_code *code, const struct mapping *mapping,
		 struct mapping_pages *pages);
