// SPDX-License-Identifier: Apache-2.0
// An index from keys to positions in an array that its user owns: open addressing, linear probing,
// 32-bit item numbers. The table never sees a key; it asks `equal` whether item N has it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_TABLE_NONE UINT32_MAX

struct hash_table_slot {
	uint32_t hash;
	uint32_t item; // HASH_TABLE_NONE: empty
};

/** A zeroed struct is a valid empty table. One thread at a time. */
struct hash_table {
	struct hash_table_slot *slots;
	uint32_t slot_count; // a power of two, or 0
	uint32_t item_count;
};

/** Does item number @item of @context have this @key? */
typedef bool (*hash_table_equal_fn)(const void *context, uint32_t item, const void *key);

void hash_table_deinit(struct hash_table *table);
/** Remove all items, keep the memory. */
void hash_table_clear(struct hash_table *table);

/** The item with @key, or HASH_TABLE_NONE. @hash is of the key, well mixed (XXH3). */
uint32_t hash_table_find(const struct hash_table *table, uint64_t hash, hash_table_equal_fn equal,
			 const void *context, const void *key);

/** Add @item, which must not be there yet. Returns 0 or -ENOMEM. */
int hash_table_add(struct hash_table *table, uint64_t hash, uint32_t item);

/** Remove @item, added under @hash. Returns 0 or -ENOENT. */
int hash_table_remove(struct hash_table *table, uint64_t hash, uint32_t item);
