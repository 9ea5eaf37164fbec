// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/stack_set.h"

#include <stdlib.h>

#include "base/array.h"

void stack_set_deinit(struct stack_set *set)
{
	hash_table_deinit(&set->index);
	free(set->ids);
	*set = (struct stack_set){ .count_max = set->count_max };
}

void stack_set_clear(struct stack_set *set)
{
	hash_table_clear(&set->index);
	set->count = 0;
}

static bool id_equal(const void *context, uint32_t item, const void *key)
{
	const struct stack_set *set = context;

	return id128_equal(set->ids[item], *(const struct id128 *)key);
}

bool stack_set_has(const struct stack_set *set, struct id128 id)
{
	return hash_table_find(&set->index, id128_hash(id), id_equal, set, &id) != HASH_TABLE_NONE;
}

void stack_set_add(struct stack_set *set, struct id128 id)
{
	if (stack_set_has(set, id))
		return;
	if (set->count >= set->count_max)
		stack_set_clear(set);
	if (array_reserve(&set->ids, sizeof(*set->ids), &set->capacity, set->count, 1,
			  set->count_max) ||
	    hash_table_add(&set->index, id128_hash(id), set->count))
		return;
	set->ids[set->count++] = id;
}
