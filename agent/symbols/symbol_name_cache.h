// SPDX-License-Identifier: Apache-2.0
// Demangled names, remembered: the same few thousand symbols are asked for in every window.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

enum {
	SYMBOL_NAMES_BYTES_MAX = 2 << 20
}; // when full all are forgotten; a busy node has about 10,000

struct symbol_name {
	uint64_t executable; // its serial number
	uint32_t symbol;     // index in its table
	uint32_t place;      // in bytes
};

/** A zeroed struct is valid and empty. */
struct symbol_name_cache {
	struct hash_table index;
	struct symbol_name *names;
	uint32_t count, capacity;
	char *bytes;
	uint32_t bytes_size, bytes_capacity;
};

void symbol_name_cache_deinit(struct symbol_name_cache *names);
/** The name, or NULL. Valid until the next add. */
const char *symbol_name_cache_find(const struct symbol_name_cache *names, uint64_t executable,
				   uint32_t symbol);
/** Remember a copy of @name. Returns the copy; NULL when out of memory. */
const char *symbol_name_cache_add(struct symbol_name_cache *names, uint64_t executable,
				  uint32_t symbol, const char *name);
size_t symbol_name_cache_bytes(const struct symbol_name_cache *names);
