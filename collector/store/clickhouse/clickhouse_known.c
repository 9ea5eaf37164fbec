// SPDX-License-Identifier: Apache-2.0
#include "collector/store/clickhouse/clickhouse_known.h"

#include <stdlib.h>

#include "base/array.h"

void known_ids_deinit(struct known_ids *known)
{
	free(known->ids);
	hash_table_deinit(&known->index);
	*known = (struct known_ids){ .count_max = known->count_max };
}

static bool equal(const void *context, uint32_t item, const void *key)
{
	const struct known_ids *known = context;
	const struct known_id *wanted = key;

	return id128_equal(known->ids[item].id, wanted->id) && known->ids[item].day == wanted->day;
}

static uint32_t find(const struct known_ids *known, const struct known_id *wanted)
{
	return hash_table_find(&known->index, id128_hash(wanted->id), equal, known, wanted);
}

bool known_ids_have(const struct known_ids *known, struct id128 id, uint16_t day, uint8_t detail)
{
	const struct known_id wanted = { .id = id, .day = day };
	uint32_t at = find(known, &wanted);

	return at != HASH_TABLE_NONE && known->ids[at].detail >= detail;
}

void known_ids_add(struct known_ids *known, struct id128 id, uint16_t day, uint8_t detail)
{
	const struct known_id added = { .id = id, .day = day, .detail = detail };
	uint32_t at = find(known, &added);

	if (at != HASH_TABLE_NONE) {
		if (known->ids[at].detail < detail)
			known->ids[at].detail = detail;
		return;
	}
	if (known->count >= known->count_max) {
		known->count = 0;
		hash_table_clear(&known->index);
	}
	if (array_reserve(&known->ids, sizeof(*known->ids), &known->capacity, known->count, 1,
			  known->count_max) ||
	    hash_table_add(&known->index, id128_hash(id), known->count))
		return;
	known->ids[known->count++] = added;
}
