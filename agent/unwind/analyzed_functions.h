// SPDX-License-Identifier: Apache-2.0
// Functions of files that no unwind information describes and that are followed for it: which of a
// file's were, kept on disk for the next agent, and those that are known to need it before a stack is
// seen there.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table_cache.h"

enum {
	UNWIND_FUNCTIONS_MAX = 64
}; // of a file: what a stack ended in is followed with its neighbours

/** A function by where it lies in its file. */
struct unwind_function {
	uint64_t offset;
	uint64_t size;
};

struct analyzed_functions {
	struct unwind_function functions[UNWIND_FUNCTIONS_MAX];
	uint32_t count;
};

/** Add one unless it is there. Returns false if it was, or there is no room. */
bool analyzed_functions_add(struct analyzed_functions *functions,
			    const struct unwind_function *function);

/**
 * Add what every program that runs the file will be in: the functions built into V8, 1.6 MB in Node,
 * if their names are in the file. Returns 0; -ENOMEM.
 */
int analyzed_functions_expect(const struct elf *elf, struct analyzed_functions *functions);

/** Add those of executable @id that were kept. @cache may be NULL. */
void analyzed_functions_load(struct unwind_table_cache *cache, const char *id,
			     struct analyzed_functions *functions);
/** Keep them. What fails is learnt again by the next agent. @cache may be NULL. */
void analyzed_functions_store(struct unwind_table_cache *cache, const char *id,
			      const struct analyzed_functions *functions);
