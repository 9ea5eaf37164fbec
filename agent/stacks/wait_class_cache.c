// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/wait_class_cache.h"

#include <stdlib.h>

#include "base/hash_table.h"

struct cached_class {
	struct id128 id;
	uint16_t unnamed; // locations without a name when it was classified
	uint8_t class;
};

struct wait_class_cache {
	struct cached_class *items;
	uint32_t count;
	struct hash_table index;
};

struct wait_class_cache *wait_class_cache_new(void)
{
	struct wait_class_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->items = calloc(WAIT_CLASSES_MAX, sizeof(*cache->items)); // touched as it fills
	if (!cache->items) {
		free(cache);
		return NULL;
	}
	return cache;
}

void wait_class_cache_free(struct wait_class_cache *cache)
{
	if (!cache)
		return;
	free(cache->items);
	hash_table_deinit(&cache->index);
	free(cache);
}

static bool item_equals(const void *context, uint32_t item, const void *key)
{
	const struct wait_class_cache *cache = context;

	return id128_equal(cache->items[item].id, *(const struct id128 *)key);
}

static uint16_t count_unnamed(const struct profile *profile, const struct stack *stack)
{
	uint16_t count = 0; // of STACK_FRAMES_MAX

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];

		count += profile->locations[at].line_count == 0;
	}
	return count;
}

// Without memory the stack is classified again next time.
static void add(struct wait_class_cache *cache, const struct cached_class *item)
{
	if (cache->count == WAIT_CLASSES_MAX) {
		hash_table_clear(&cache->index);
		cache->count = 0;
	}
	if (hash_table_add(&cache->index, hash64_of(&item->id, sizeof(item->id)), cache->count) ==
	    0)
		cache->items[cache->count++] = *item;
}

enum wait_class wait_class_cache_find(struct wait_class_cache *cache, const struct profile *profile,
				      const struct stack *stack)
{
	struct cached_class item = { .id = stack->id, .unnamed = count_unnamed(profile, stack) };
	uint32_t at = hash_table_find(&cache->index, hash64_of(&item.id, sizeof(item.id)),
				      item_equals, cache, &item.id);

	if (at != HASH_TABLE_NONE && cache->items[at].unnamed == item.unnamed)
		return cache->items[at].class;
	item.class = wait_class_of_stack(profile, stack);
	if (at != HASH_TABLE_NONE)
		cache->items[at] = item;
	else
		add(cache, &item);
	return item.class;
}
