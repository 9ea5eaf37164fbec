// SPDX-License-Identifier: Apache-2.0
// All symbols of a file, its debug file and its language runtime's table, as they are read. A symbol table is
// built from them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/elf.h"

enum {
	LISTED_SYMBOLS_MAX = 2 << 20, // per file; Chromium, unstripped, has 1.5 million
};

/* Where a name lies. For one address the first pool is preferred. */
enum name_pool {
	NAME_POOL_SYMTAB,
	NAME_POOL_DEBUG, // in the debug file
	NAME_POOL_DYNSYM,
	NAME_POOL_GO,
	NAME_POOL_COUNT,
};

#define NAME_OFFSET_BITS 30 // of a symbol's name; the pool is in the bits above
#define NAME_OFFSET_MAX  (1U << NAME_OFFSET_BITS)

/* A pool in its file. */
struct name_pool_range {
	uint64_t offset;
	uint64_t size; // at most NAME_OFFSET_MAX
};

/** A function. If the symbol has no size, it is the space up to its section's end. */
struct listed_symbol {
	uint32_t offset; // from the list's base
	uint32_t size;
	uint32_t name; // offset in its pool | pool << NAME_OFFSET_BITS
	uint8_t rank;  // lower is the better name for one address
	bool sized;
};

struct symbol_list {
	uint64_t base; // file offset of the lowest executable segment
	struct name_pool_range pools[NAME_POOL_COUNT];
	struct listed_symbol *symbols;
	uint32_t count;
	uint32_t capacity;
	bool complete; // there was a .symtab
};

/** What the names are read from. */
struct symbol_sources {
	const struct elf *elf;   // the file itself
	const struct elf *debug; // its separate debug file, or NULL
	bool is_cuda_driver;     // name libcuda's functions by its slots (cuda_symbols.h)
};

/**
 * Read all symbols of @sources. *ret_list must be deinited in any case.
 * Returns 0, also for files without symbols or with broken tables; -ENOMEM; -errno.
 */
int symbol_list_read(const struct symbol_sources *sources, struct symbol_list *ret_list);
void symbol_list_deinit(struct symbol_list *list);
