// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/symbol_name_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/id128.h"

// The index has at most two slots for each name.
static_assert(SYMBOL_NAMES_TEXT_BYTES_MAX +
			      SYMBOL_NAMES_MAX * (sizeof(struct symbol_name) +
						  2 * sizeof(struct hash_table_slot)) <=
		      SYMBOL_NAMES_BYTES_MAX,
	      "all of it counts");

static uint64_t hash_of(uint64_t executable, uint32_t symbol)
{
	uint64_t key[2] = { executable, symbol };

	return hash64_of(key, sizeof(key));
}

static bool name_equals(const void *context, uint32_t item, const void *key)
{
	const struct symbol_name_cache *names = context;
	const struct symbol_name *wanted = key;
	const struct symbol_name *name = &names->names[item];

	return name->executable == wanted->executable && name->symbol == wanted->symbol;
}

void symbol_name_cache_deinit(struct symbol_name_cache *names)
{
	hash_table_deinit(&names->index);
	free(names->names);
	free(names->bytes);
	memset(names, 0, sizeof(*names));
}

const char *symbol_name_cache_find(const struct symbol_name_cache *names, uint64_t executable,
				   uint32_t symbol)
{
	struct symbol_name wanted = { .executable = executable, .symbol = symbol };
	uint32_t item = hash_table_find(&names->index, hash_of(executable, symbol), name_equals,
					names, &wanted);

	return item == HASH_TABLE_NONE ? NULL : names->bytes + names->names[item].offset;
}

const char *symbol_name_cache_add(struct symbol_name_cache *names, uint64_t executable,
				  uint32_t symbol, const char *name)
{
	uint32_t size = (uint32_t)strlen(name) + 1; // at most DEMANGLED_BYTES_MAX

	if (names->count == SYMBOL_NAMES_MAX || names->size + size > SYMBOL_NAMES_TEXT_BYTES_MAX) {
		hash_table_clear(&names->index);
		names->count = names->size = 0;
	}
	if (array_reserve(&names->names, sizeof(*names->names), &names->capacity, names->count, 1,
			  SYMBOL_NAMES_MAX) ||
	    array_reserve(&names->bytes, 1, &names->bytes_capacity, names->size, size,
			  SYMBOL_NAMES_TEXT_BYTES_MAX) ||
	    hash_table_add(&names->index, hash_of(executable, symbol), names->count))
		return NULL;
	names->names[names->count++] = (struct symbol_name){
		.executable = executable,
		.symbol = symbol,
		.offset = names->size,
	};

	char *copy = names->bytes + names->size;
	memcpy(copy, name, size);
	names->size += size;
	return copy;
}

size_t symbol_name_cache_bytes(const struct symbol_name_cache *names)
{
	return names->bytes_capacity + names->capacity * sizeof(*names->names) +
	       names->index.slot_count * sizeof(*names->index.slots);
}
