// SPDX-License-Identifier: Apache-2.0
// Locations of frames seen before: a stack shares most of its frames with others, and to compute a location's identity takes
// several times as long as to recognize the frame. Direct-mapped: a frame evicts another one of its place. One thread.
#pragma once

#include <stdint.h>

enum { LOCATION_CACHE_ENTRIES_MAX = 8192 }; // 32 bytes each; a power of two

/** What a frame is known by: the same key always means the same location. */
struct location_key {
	uint64_t owner[2]; // of the address: a file, or a process. 0: the frame is not cached
	uint64_t address;
	uint32_t detail;
};

struct location_cache_entry {
	uint64_t owner[2]; // of 0: it is empty
	uint64_t address;
	uint32_t detail;
	uint32_t location;
};

/** A zeroed struct is valid and empty; its entries are allocated with the first one. */
struct location_cache {
	struct location_cache_entry *entries;
};

void location_cache_deinit(struct location_cache *cache);
/** Drops all entries: their locations may be freed. */
void location_cache_clear(struct location_cache *cache);
/** HASH_TABLE_NONE: not there. */
uint32_t location_cache_find(const struct location_cache *cache, const struct location_key *key);
/** @location HASH_TABLE_NONE, or no memory: nothing is added. */
void location_cache_add(struct location_cache *cache, const struct location_key *key,
			uint32_t location);
