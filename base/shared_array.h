// SPDX-License-Identifier: Apache-2.0
// An array that grows by a new block while readers go on with the old one. The writer fills items in
// order and never changes one that it has filled; a reader takes a reference and the count at the
// same time, under the writer's lock, and reads that many items without it.
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct shared_array_block {
	_Alignas(max_align_t) atomic_uint refs;
};

static inline struct shared_array_block *shared_array_block(const void *items)
{
	return (struct shared_array_block *)((char *)(uintptr_t)items -
					     sizeof(struct shared_array_block));
}

/** A reference to the block of @items, which may be NULL. Returns @items. */
static inline void *shared_array_ref(const void *items)
{
	if (items)
		atomic_fetch_add(&shared_array_block(items)->refs, 1);
	return (void *)(uintptr_t)items;
}

/** Release a reference; NULL is allowed. */
static inline void shared_array_unref(const void *items)
{
	if (items && atomic_fetch_sub(&shared_array_block(items)->refs, 1) == 1)
		free(shared_array_block(items));
}

/**
 * Make room for @more items after @count in *array (a pointer to an array's pointer), as
 * array_reserve() does. Returns 0; -ENOMEM; -E2BIG if that is more than @count_max.
 */
static inline int shared_array_reserve(void *array, size_t item_size, uint32_t *capacity,
				       uint32_t count, uint32_t more, uint32_t count_max)
{
	void **items = array;
	uint32_t wanted;
	int rc = array_capacity(*capacity, count, more, count_max, &wanted);

	if (rc || wanted == *capacity)
		return rc;
	struct shared_array_block *block = malloc(sizeof(*block) + (size_t)wanted * item_size);
	if (!block)
		return -ENOMEM;
	atomic_init(&block->refs, 1);
	if (count)
		memcpy(block + 1, *items, count * item_size);
	shared_array_unref(*items);
	*items = block + 1;
	*capacity = wanted;
	return 0;
}
