// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "bpf/gpu/gpu_call.h"

void gpu_names_deinit(struct gpu_names *names)
{
	free(names->used);
	free(names->unused);
	*names = (struct gpu_names){ 0 };
}

static int append(uint64_t **hashes, uint32_t *count, uint32_t *capacity, uint64_t hash)
{
	int rc = array_reserve(hashes, sizeof(**hashes), capacity, *count, 1, UINT32_MAX);

	if (!rc)
		(*hashes)[(*count)++] = hash;
	return rc;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sort(uint64_t *hashes, uint32_t count)
{
	if (count)
		qsort(hashes, count, sizeof(*hashes), by_hash);
}

static bool is_among(const uint64_t *hashes, uint32_t count, uint64_t hash)
{
	return count && bsearch(&hash, hashes, count, sizeof(hash), by_hash);
}

static int note_used(void *context, const void *key, const void *value)
{
	struct gpu_names *names = context;
	const struct gpu_function *function = value;

	(void)key;
	return append(&names->used, &names->used_count, &names->used_capacity, function->name);
}

struct sweep {
	struct gpu_names *names;
	uint32_t before; // hashes that were unused at the last sweep
	int rc;
};

static bool is_unused_again(void *context, const void *key, const void *value)
{
	struct sweep *sweep = context;
	struct gpu_names *names = sweep->names;
	uint64_t hash = *(const uint64_t *)key;

	(void)value;
	if (is_among(names->used, names->used_count, hash))
		return false;
	if (is_among(names->unused, sweep->before, hash))
		return true;
	if (!sweep->rc)
		sweep->rc =
			append(&names->unused, &names->unused_count, &names->unused_capacity, hash);
	return false;
}

int gpu_names_sweep(struct gpu_names *names, struct map_entries *entries,
		    const struct bpf_map *functions, const struct bpf_map *texts)
{
	struct sweep sweep = { .names = names, .before = names->unused_count };

	names->used_count = 0;
	int rc = map_entries_each(entries, functions, note_used, names);
	if (rc)
		return rc;
	sort(names->used, names->used_count);
	rc = map_entries_remove(entries, texts, is_unused_again, &sweep);
	// Those of the last sweep are removed by now, or in use again.
	names->unused_count -= sweep.before;
	for (uint32_t i = 0; i < names->unused_count; i++)
		names->unused[i] = names->unused[sweep.before + i];
	sort(names->unused, names->unused_count);
	return rc < 0 ? rc : sweep.rc;
}
