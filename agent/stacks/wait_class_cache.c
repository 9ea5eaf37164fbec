// SPDX-License-Identifier: Apache-2.0
// Classes of stacks by the stacks' identities. A stack is classed again when functions on it have got
// names since.
#include "agent/stacks/wait_class.h"

#include <stdlib.h>

#include "base/hash_table.h"

struct memo_item {
	struct id128 id;
	uint16_t unnamed; // locations without a name when it was classed
	uint8_t class;
};

struct wait_class_cache {
	struct memo_item *items;
	uint32_t count;
	struct hash_table index;
};

struct wait_class_cache *wait_class_cache_new(void)
{
	struct wait_class_cache *memo = calloc(1, sizeof(*memo));

	if (!memo)
		return NULL;
	memo->items = calloc(WAIT_CLASSES_MAX, sizeof(*memo->items)); // touched as it fills
	if (!memo->items) {
		free(memo);
		return NULL;
	}
	return memo;
}

void wait_class_cache_free(struct wait_class_cache *memo)
{
	if (!memo)
		return;
	free(memo->items);
	hash_table_deinit(&memo->index);
	free(memo);
}

static bool item_equals(const void *context, uint32_t item, const void *key)
{
	const struct wait_class_cache *memo = context;

	return id128_equal(memo->items[item].id, *(const struct id128 *)key);
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

// What cannot be remembered is classed again next time.
static void remember(struct wait_class_cache *memo, const struct memo_item *item)
{
	if (memo->count == WAIT_CLASSES_MAX) {
		hash_table_clear(&memo->index);
		memo->count = 0;
	}
	if (hash_table_add(&memo->index, hash64_of(&item->id, sizeof(item->id)), memo->count) == 0)
		memo->items[memo->count++] = *item;
}

enum wait_class wait_class_cache_find(struct wait_class_cache *memo, const struct profile *profile,
				      const struct stack *stack)
{
	struct memo_item item = { .id = stack->id, .unnamed = count_unnamed(profile, stack) };
	uint32_t at = hash_table_find(&memo->index, hash64_of(&item.id, sizeof(item.id)),
				      item_equals, memo, &item.id);

	if (at != HASH_TABLE_NONE && memo->items[at].unnamed == item.unnamed)
		return memo->items[at].class;
	item.class = wait_class_of_stack(profile, stack);
	if (at != HASH_TABLE_NONE)
		memo->items[at] = item;
	else
		remember(memo, &item);
	return item.class;
}
