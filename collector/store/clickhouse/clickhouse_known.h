// SPDX-License-Identifier: Apache-2.0
// Which definitions a shard has on which day: so that each is inserted once a day, not with each batch. A cache: what it
// has evicted is inserted again, and merges drop it. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/id128.h"

struct known_id {
	struct id128 id;
	uint16_t day;   // since 1970
	uint8_t detail; // of a location: location_detail()
};

struct known_ids {
	struct known_id *ids;
	uint32_t count, capacity, count_max;
	struct hash_table index;
};

void known_ids_deinit(struct known_ids *known);
bool known_ids_have(const struct known_ids *known, struct id128 id, uint16_t day, uint8_t detail);
/** A full table evicts all. If there is no memory, it stays unknown. */
void known_ids_add(struct known_ids *known, struct id128 id, uint16_t day, uint8_t detail);
