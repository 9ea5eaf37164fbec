// SPDX-License-Identifier: Apache-2.0
// The JIT-compiled functions of one process, as the process itself lists them, by address. Where they overlap
// the newest counts: JIT compilers use memory again. One thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	JIT_SYMBOLS_MAX = 1 << 18,      // functions of a process; large Java services have 50,000
	JIT_NAMES_BYTES_MAX = 16 << 20, // of a process, in use or not yet swept
	JIT_NAME_BYTES_MAX = 1024,      // longer names are cut; Java and .NET signatures are long
};

struct jit_symbols;

struct jit_symbols *jit_symbols_new(void);
void jit_symbols_free(struct jit_symbols *symbols);
void jit_symbols_clear(struct jit_symbols *symbols);

/**
 * Add a function in @size bytes from @start, over what was there. @name (@name_size bytes of any content,
 * without a NUL) is kept without tier marks (jit_name_clean()).
 * Returns 0, also for a senseless one, which is left out; -E2BIG at a limit above; -ENOMEM.
 */
int jit_symbols_add(struct jit_symbols *symbols, uint64_t start, uint64_t size, const char *name,
		    size_t name_size);

/** The name of the function at @address, or NULL. Valid until the next add or clear. */
const char *jit_symbols_find(struct jit_symbols *symbols, uint64_t address);

/** Memory in use. */
size_t jit_symbols_bytes(const struct jit_symbols *symbols);
