// SPDX-License-Identifier: Apache-2.0
#include "base/hash_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 16 };

void hash_table_deinit(struct hash_table *table)
{
	free(table->slots);
	*table = (struct hash_table){ 0 };
}

void hash_table_clear(struct hash_table *table)
{
	if (table->slots) // every byte 0xff: HASH_TABLE_NONE
		memset(table->slots, 0xff, table->slot_count * sizeof(*table->slots));
	table->item_count = 0;
}

static uint32_t fold(uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32);
}

uint32_t hash_table_find(const struct hash_table *table, uint64_t hash, hash_table_equal_fn equal,
			 const void *context, const void *key)
{
	if (table->item_count == 0)
		return HASH_TABLE_NONE;

	uint32_t mask = table->slot_count - 1;
	uint32_t folded = fold(hash);

	// There is always an empty slot, so this ends.
	for (uint32_t at = folded & mask;; at = (at + 1) & mask) {
		const struct hash_table_slot *slot = &table->slots[at];

		if (slot->item == HASH_TABLE_NONE)
			return HASH_TABLE_NONE;
		if (slot->hash == folded && equal(context, slot->item, key))
			return slot->item;
	}
}

static void place(struct hash_table *table, uint32_t folded, uint32_t item)
{
	uint32_t mask = table->slot_count - 1;
	uint32_t at = folded & mask;

	while (table->slots[at].item != HASH_TABLE_NONE)
		at = (at + 1) & mask;
	table->slots[at] = (struct hash_table_slot){ .hash = folded, .item = item };
}

static int grow(struct hash_table *table)
{
	struct hash_table larger = { .item_count = table->item_count };

	if (table->slot_count > UINT32_MAX / 2)
		return -ENOMEM;
	larger.slot_count = table->slot_count ? table->slot_count * 2 : SLOTS_MIN;
	larger.slots = malloc(larger.slot_count * sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	memset(larger.slots, 0xff, larger.slot_count * sizeof(*larger.slots));

	for (uint32_t i = 0; i < table->slot_count; i++) {
		if (table->slots[i].item != HASH_TABLE_NONE)
			place(&larger, table->slots[i].hash, table->slots[i].item);
	}
	free(table->slots);
	*table = larger;
	return 0;
}

int hash_table_add(struct hash_table *table, uint64_t hash, uint32_t item)
{
	// At most 3/4 full: chains stay short and an empty slot is always there to end a search.
	if ((uint64_t)(table->item_count + 1) * 4 > (uint64_t)table->slot_count * 3) {
		int rc = grow(table);
		if (rc < 0)
			return rc;
	}
	place(table, fold(hash), item);
	table->item_count++;
	return 0;
}

// Pull later items of the same run back over the hole, so that no search stops early.
static void close_hole(struct hash_table *table, uint32_t hole)
{
	uint32_t mask = table->slot_count - 1;

	for (uint32_t at = (hole + 1) & mask; table->slots[at].item != HASH_TABLE_NONE;
	     at = (at + 1) & mask) {
		uint32_t home = table->slots[at].hash & mask;

		// May it move? Only if its home is not between the hole (excluded) and itself.
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			table->slots[hole] = table->slots[at];
			hole = at;
		}
	}
	table->slots[hole].item = HASH_TABLE_NONE;
}

int hash_table_remove(struct hash_table *table, uint64_t hash, uint32_t item)
{
	if (table->item_count == 0)
		return -ENOENT;

	uint32_t mask = table->slot_count - 1;
	uint32_t at = fold(hash) & mask;

	while (table->slots[at].item != item) {
		if (table->slots[at].item == HASH_TABLE_NONE)
			return -ENOENT;
		at = (at + 1) & mask;
	}
	close_hole(table, at);
	table->item_count--;
	return 0;
}
