// SPDX-License-Identifier: Apache-2.0
// Room at the end of a growing array.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * calloc() to *array (a pointer to an array's pointer), also of a @count of 0. Returns 0 or
 * -ENOMEM.
 */
static inline int array_allocate(void *array, size_t count, size_t item_size)
{
	void **items = array;

	*items = calloc(count ? count : 1, item_size);
	return *items ? 0 : -ENOMEM;
}

/**
 * The capacity for @more items after @count: @capacity, or it doubled until they fit. Returns 0; -E2BIG if that is
 * more than @count_max.
 */
static inline int array_capacity(uint32_t capacity, uint32_t count, uint32_t more,
				 uint32_t count_max, uint32_t *ret_capacity)
{
	uint64_t wanted = capacity ? capacity : 16;

	if (count > count_max || more > count_max - count)
		return -E2BIG;
	while (wanted < (uint64_t)count + more)
		wanted *= 2;
	*ret_capacity = count + more <= capacity ? capacity
			: wanted < count_max     ? (uint32_t)wanted
						 : count_max;
	return 0;
}

/**
 * Make room for @more items after @count in *array (a pointer to an array's pointer). Returns 0;
 * -ENOMEM; -E2BIG if that is more than @count_max.
 */
static inline int array_reserve(void *array, size_t item_size, uint32_t *capacity, uint32_t count,
				uint32_t more, uint32_t count_max)
{
	void **items = array;
	uint32_t wanted;
	int rc = array_capacity(*capacity, count, more, count_max, &wanted);

	if (rc || wanted == *capacity)
		return rc;
	void *larger = reallocarray(*items, wanted, item_size);
	if (!larger)
		return -ENOMEM;
	*items = larger;
	*capacity = wanted;
	return 0;
}
