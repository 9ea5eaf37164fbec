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
 * Make room for @more items after @count in *array (a pointer to an array's pointer). Returns 0;
 * -ENOMEM; -E2BIG if that is more than @count_max.
 */
static inline int array_reserve(void *array, size_t item_size, uint32_t *capacity, uint32_t count,
				uint32_t more, uint32_t count_max)
{
	void **items = array;
	uint64_t wanted = *capacity ? *capacity : 16;

	if (count > count_max || more > count_max - count)
		return -E2BIG;
	if (count + more <= *capacity)
		return 0;
	while (wanted < (uint64_t)count + more)
		wanted *= 2;
	if (wanted > count_max)
		wanted = count_max;
	void *larger = reallocarray(*items, wanted, item_size);
	if (!larger)
		return -ENOMEM;
	*items = larger;
	*capacity = (uint32_t)wanted;
	return 0;
}
