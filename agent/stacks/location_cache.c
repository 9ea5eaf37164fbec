// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/location_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_table.h"

_Static_assert(!(LOCATION_CACHE_ENTRIES_MAX & (LOCATION_CACHE_ENTRIES_MAX - 1)), "a power of two");

void location_cache_deinit(struct location_cache *cache)
{
	free(cache->entries);
	*cache = (struct location_cache){ 0 };
}

void location_cache_clear(struct location_cache *cache)
{
	if (cache->entries)
		memset(cache->entries, 0, LOCATION_CACHE_ENTRIES_MAX * sizeof(*cache->entries));
}

static struct location_cache_entry *entry_of(const struct location_cache *cache,
					     const struct location_key *key)
{
	uint64_t hash =
		key->address ^ key->owner[0] * 0x9e3779b97f4a7c15ULL ^ (uint64_t)key->detail << 32;

	hash *= 0x9e3779b97f4a7c15ULL;
	return &cache->entries[(hash >> 40) & (LOCATION_CACHE_ENTRIES_MAX - 1)];
}

static bool is_of(const struct location_cache_entry *entry, const struct location_key *key)
{
	return entry->address == key->address && entry->owner[0] == key->owner[0] &&
	       entry->owner[1] == key->owner[1] && entry->detail == key->detail;
}

uint32_t location_cache_find(const struct location_cache *cache, const struct location_key *key)
{
	const struct location_cache_entry *entry = cache->entries ? entry_of(cache, key) : NULL;

	return entry && key->owner[0] && is_of(entry, key) ? entry->location : HASH_TABLE_NONE;
}

void location_cache_add(struct location_cache *cache, const struct location_key *key,
			uint32_t location)
{
	if (!key->owner[0] || location == HASH_TABLE_NONE)
		return;
	if (!cache->entries)
		cache->entries = calloc(LOCATION_CACHE_ENTRIES_MAX, sizeof(*cache->entries));
	if (cache->entries)
		*entry_of(cache, key) =
			(struct location_cache_entry){ .owner = { key->owner[0], key->owner[1] },
						       .address = key->address,
						       .detail = key->detail,
						       .location = location };
}
