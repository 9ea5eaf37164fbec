// SPDX-License-Identifier: Apache-2.0
// All entries of a kernel's map, read in batches: to look at each, or to let go of some. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Room for a batch. */
struct map_entries {
	uint8_t *keys, *values;
	uint32_t key_bytes; // of the longest key
};

/** Returns 0 or -ENOMEM. */
int map_entries_init(struct map_entries *entries, uint32_t key_bytes_max);
void map_entries_deinit(struct map_entries *entries);

struct bpf_map;
/** Returns other than 0 to be handed no more. */
typedef int (*map_entry_fn)(void *context, const void *key, const void *value);
typedef bool (*map_entry_is_fn)(void *context, const void *key, const void *value);

/** Hand each entry to @fn, until it fails. Returns what it did, 0 or a negative errno. */
int map_entries_each(struct map_entries *entries, const struct bpf_map *map, map_entry_fn fn,
		     void *context);

/** Remove those of which @is says so. Returns how many there were, or a negative errno. */
int map_entries_remove(struct map_entries *entries, const struct bpf_map *map, map_entry_is_fn is,
		       void *context);
