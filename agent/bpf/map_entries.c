// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/map_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/array.h"

enum {
	BATCH = 256,             // entries per system call,
	BATCH_BYTES = 128 << 10, // limited also by the bytes of their values
};

int map_entries_init(struct map_entries *entries, uint32_t key_bytes_max)
{
	*entries = (struct map_entries){
		.keys = calloc(BATCH, key_bytes_max),
		.values = calloc(1, BATCH_BYTES),
		.key_bytes = key_bytes_max,
	};
	if (entries->keys && entries->values)
		return 0;
	map_entries_deinit(entries);
	return -ENOMEM;
}

void map_entries_deinit(struct map_entries *entries)
{
	free(entries->keys);
	free(entries->values);
	*entries = (struct map_entries){ 0 };
}

int map_entries_each(struct map_entries *entries, const struct bpf_map *map, map_entry_fn fn,
		     void *context)
{
	uint32_t key_size = bpf_map__key_size(map), value_size = bpf_map__value_size(map);
	uint32_t batch = BATCH_BYTES / value_size, position, count;
	void *from = NULL;
	int rc, failed = 0;

	do {
		count = batch < BATCH ? batch : BATCH;
		rc = bpf_map_lookup_batch(bpf_map__fd(map), from, &position, entries->keys,
					  entries->values, &count, NULL);
		if (rc < 0 && rc != -ENOENT) // -ENOENT: that was the last batch
			return rc;
		for (uint32_t i = 0; i < count && !failed; i++)
			failed = fn(context, entries->keys + i * key_size,
				    entries->values + i * value_size);
		from = &position;
	} while (!rc && !failed);
	return failed;
}

// ---- removing -------------------------------------------------------------------------------

struct removing {
	map_entry_is_fn is;
	void *context;
	uint32_t key_size;
	uint8_t *keys;
	uint32_t count, capacity;
};

static int collect(void *context, const void *key, const void *value)
{
	struct removing *removing = context;

	if (!removing->is(removing->context, key, value))
		return 0;
	int rc = array_reserve(&removing->keys, removing->key_size, &removing->capacity,
			       removing->count, 1, UINT32_MAX);
	if (rc)
		return rc;
	memcpy(removing->keys + (size_t)removing->count++ * removing->key_size, key,
	       removing->key_size);
	return 0;
}

// Keys are collected first: an iteration needs the key that it stands at.
int map_entries_remove(struct map_entries *entries, const struct bpf_map *map, map_entry_is_fn is,
		       void *context)
{
	struct removing removing = {
		.is = is,
		.context = context,
		.key_size = bpf_map__key_size(map),
	};
	int rc = map_entries_each(entries, map, collect, &removing);

	for (uint32_t i = 0; i < removing.count; i++)
		bpf_map_delete_elem(bpf_map__fd(map),
				    removing.keys + (size_t)i * removing.key_size);
	free(removing.keys);
	return rc ? rc : (int)removing.count;
}
