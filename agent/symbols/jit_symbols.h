// SPDX-License-Identifier: Apache-2.0
// The functions of one process that were compiled at run time, as the process itself lists them: by
// address, the newest where they overlap, since memory of old code is used again. One thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	JIT_SYMBOLS_MAX = 1 << 18,      // functions of a process; large Java services have 50,000
	JIT_NAMES_BYTES_MAX = 16 << 20, // of a process, live and not yet swept
	JIT_NAME_BYTES_MAX = 1024,      // longer ones are cut; Java and .NET signatures are long
};

struct jit_symbols;

struct jit_symbols *jit_symbols_new(void);
void jit_symbols_free(struct jit_symbols *symbols);
/** Forget all. */
void jit_symbols_clear(struct jit_symbols *symbols);

/**
 * There is a function @name (@name_size bytes, without a NUL, of any content; kept as
 * jit_name_clean() leaves it) in @size bytes from @start on, and what was there has gone.
 * Returns 0, also for one that makes no sense and is left out; -E2BIG at a limit above; -ENOMEM.
 */
int jit_symbols_add(struct jit_symbols *symbols, uint64_t start, uint64_t size, const char *name,
		    size_t name_size);

/** The name of the function at @address, or NULL. Valid until the next add or clear. */
const char *jit_symbols_find(struct jit_symbols *symbols, uint64_t address);

/** Memory in use. */
size_t jit_symbols_bytes(const struct jit_symbols *symbols);
