// SPDX-License-Identifier: Apache-2.0
// Functions that no unwind information describes and whose code is analyzed: a file's list of them, kept on disk for
// the next agent, and those known to need it before a sample ends there.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/elf.h"
#include "agent/unwind/unwind_table_cache.h"

enum {
	UNWIND_FUNCTIONS_MAX = 64, // per file: they are analyzed with their neighbours
	UNWIND_UNKNOWN_BYTES = 1,  // the size of an address whose function is not known
	UNWIND_UNKNOWN_APART_BYTES =
		4 << 10, // between two of them: a part of what is analyzed with each
};

/** A function by file offset. */
struct unwind_function {
	uint64_t offset;
	uint64_t size;
};

struct analyzed_functions {
	struct unwind_function functions[UNWIND_FUNCTIONS_MAX];
	uint32_t count;
};

/** Returns false if it overlaps one that is there, both are of unknown size and near, or the list is full. */
bool analyzed_functions_add(struct analyzed_functions *functions,
			    const struct unwind_function *function);

/** Add the functions built into V8 (1.6 MB in Node), if @elf has their names. Returns 0 or -ENOMEM. */
int analyzed_functions_expect(const struct elf *elf, struct analyzed_functions *functions);

/** Add those cached for executable @id. @cache may be NULL. */
void analyzed_functions_load(struct unwind_table_cache *cache, const char *id,
			     struct analyzed_functions *functions);
/** Cache them. A failure is ignored: the next agent finds them again. @cache may be NULL. */
void analyzed_functions_store(struct unwind_table_cache *cache, const char *id,
			      const struct analyzed_functions *functions);
