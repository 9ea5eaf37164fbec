// SPDX-License-Identifier: Apache-2.0
// All names that a file, its debug file and its runtime's tables have for its functions, as they
// come: what a symbol table is made of.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/elf.h"

enum {
	LISTED_SYMBOLS_MAX = 2 << 20, // per file; Chromium, unstripped, has 1.5 million
};

/* Which list of names one is in: in the order of preference for one address. */
enum name_pool {
	NAME_POOL_SYMTAB,
	NAME_POOL_DEBUG, // in the debug file
	NAME_POOL_DYNSYM,
	NAME_POOL_GO,
	NAME_POOL_COUNT,
};

#define NAME_PLACE_BITS 30 // of a symbol's name; the pool is in the bits above
#define NAME_PLACE_MAX  (1U << NAME_PLACE_BITS)

/* Where a pool lies in its file. */
struct name_pool_range {
	uint64_t offset;
	uint64_t size; // at most NAME_PLACE_MAX
};

/** A function. Without a size of its own, size is the space up to its section's end. */
struct listed_symbol {
	uint32_t offset; // from the list's base
	uint32_t size;
	uint32_t name; // place in its pool | pool << NAME_PLACE_BITS
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
 * Read what @sources have. @ret_list is to be deinitialized in any case.
 * Returns 0, also where there is nothing or it is broken; -ENOMEM; -errno.
 */
int symbol_list_read(const struct symbol_sources *sources, struct symbol_list *ret_list);
void symbol_list_deinit(struct symbol_list *list);
