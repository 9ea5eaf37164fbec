// SPDX-License-Identifier: Apache-2.0
// Cache of demangled symbol names: the same few thousand are looked up in every export interval.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

enum {
	SYMBOL_NAMES_MAX = 32 << 10, // the cache is emptied when full; a busy node has 10,000 names
	SYMBOL_NAMES_TEXT_BYTES_MAX =
		2 << 20, // of them: 64 bytes a name; then the cache is emptied, too
	SYMBOL_NAMES_BYTES_MAX = 3 << 20, // all memory of the cache: text, names and their index
};

struct symbol_name {
	uint64_t executable; // its serial number
	uint32_t symbol;     // index in its table
	uint32_t offset;     // in bytes
};

/** A zeroed struct is valid and empty. */
struct symbol_name_cache {
	struct hash_table index;
	struct symbol_name *names;
	uint32_t count, capacity;
	char *bytes;
	uint32_t size, bytes_capacity;
};

void symbol_name_cache_deinit(struct symbol_name_cache *names);
/** The name, or NULL. Valid until the next add. */
const char *symbol_name_cache_find(const struct symbol_name_cache *names, uint64_t executable,
				   uint32_t symbol);
/** Returns a copy of @name in the cache; NULL when out of memory. */
const char *symbol_name_cache_add(struct symbol_name_cache *names, uint64_t executable,
				  uint32_t symbol, const char *name);
/** The memory that it has: at most SYMBOL_NAMES_BYTES_MAX. */
size_t symbol_name_cache_bytes(const struct symbol_name_cache *names);
