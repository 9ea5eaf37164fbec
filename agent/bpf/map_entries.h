// SPDX-License-Identifier: Apache-2.0
// All entries of a BPF map, in batches: visited, or removed by a condition. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Buffers for a batch. */
struct map_entries {
	uint8_t *keys, *values;
	uint32_t key_bytes; // of the longest key
};

/** Returns 0 or -ENOMEM. */
int map_entries_init(struct map_entries *entries, uint32_t key_bytes_max);
void map_entries_deinit(struct map_entries *entries);

struct bpf_map;
/** Returns other than 0 to stop. */
typedef int (*map_entry_fn)(void *context, const void *key, const void *value);
typedef bool (*map_entry_is_fn)(void *context, const void *key, const void *value);

/** Pass each entry to @fn. Returns what @fn returned if that was not 0, else 0 or a negative errno. */
int map_entries_each(struct map_entries *entries, const struct bpf_map *map, map_entry_fn fn,
		     void *context);

/** Remove the entries for which @is returns true. Returns how many, or a negative errno. */
int map_entries_remove(struct map_entries *entries, const struct bpf_map *map, map_entry_is_fn is,
		       void *context);
