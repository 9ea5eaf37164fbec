// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/stack_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct stack_entry {
	struct known_stack stack;
	struct stack_hash hash;
	uint64_t used_ns;
	bool used;
	bool leaving; // evicted from the BPF programs' map
};

struct stack_table {
	struct stack_entry *entries; // STACKS_MAX; those never touched cost no memory
	uint32_t entry_count;        // ever used
	uint32_t *unused;            // entries to use again
	uint32_t unused_count;
	struct hash_table index;
};

struct stack_table *stack_table_new(void)
{
	struct stack_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->entries = calloc(STACKS_MAX, sizeof(*table->entries));
	table->unused = calloc(STACKS_MAX, sizeof(*table->unused));
	if (!table->entries || !table->unused) {
		stack_table_free(table);
		return NULL;
	}
	return table;
}

void stack_table_free(struct stack_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->entry_count; i++)
		free(table->entries[i].stack.locations);
	free(table->entries);
	free(table->unused);
	hash_table_deinit(&table->index);
	free(table);
}

uint32_t stack_table_count(const struct stack_table *table)
{
	return table->index.item_count;
}

static bool entry_has_hash(const void *context, uint32_t item, const void *key)
{
	const struct stack_table *table = context;

	return !memcmp(&table->entries[item].hash, key, sizeof(struct stack_hash));
}

static struct stack_entry *find(const struct stack_table *table, const struct stack_hash *hash)
{
	uint32_t at = hash_table_find(&table->index, hash->low, entry_has_hash, table, hash);

	return at == HASH_TABLE_NONE ? NULL : &table->entries[at];
}

static int add_entry(struct stack_table *table, const struct stack_hash *hash,
		     struct stack_entry **ret_entry)
{
	uint32_t at;

	if (table->unused_count)
		at = table->unused[table->unused_count - 1];
	else if (table->entry_count < STACKS_MAX)
		at = table->entry_count;
	else
		return -ENOSPC;

	int rc = hash_table_add(&table->index, hash->low, at);
	if (rc < 0)
		return rc;
	if (table->unused_count)
		table->unused_count--;
	else
		table->entry_count++;
	table->entries[at] = (struct stack_entry){ .hash = *hash, .used = true };
	*ret_entry = &table->entries[at];
	return 0;
}

static void free_entry(struct stack_table *table, uint32_t at)
{
	struct stack_entry *entry = &table->entries[at];

	hash_table_remove(&table->index, entry->hash.low, at);
	free(entry->stack.locations);
	*entry = (struct stack_entry){ 0 };
	table->unused[table->unused_count++] = at;
}

int stack_table_add(struct stack_table *table, const struct stack_hash *hash,
		    const uint32_t *locations, uint32_t count, enum stack_end end, uint64_t now_ns)
{
	_cleanup_free_ uint32_t *copy = malloc(count ? count * sizeof(*copy) : 1);
	struct stack_entry *entry = find(table, hash);

	if (!copy)
		return -ENOMEM;
	if (count)
		memcpy(copy, locations, count * sizeof(*copy));
	if (!entry) {
		int rc = add_entry(table, hash, &entry);
		if (rc < 0)
			return rc;
	}
	free(entry->stack.locations);
	entry->stack = (struct known_stack){ .locations = take(copy), .count = count, .end = end };
	entry->used_ns = now_ns;
	entry->leaving = false;
	return 0;
}

const struct known_stack *stack_table_find(struct stack_table *table, const struct stack_hash *hash,
					   uint64_t now_ns)
{
	struct stack_entry *entry = find(table, hash);

	if (!entry)
		return NULL;
	entry->used_ns = now_ns;
	return &entry->stack;
}

// ---- expiry ---------------------------------------------------------------------------------

static int compare_ns(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return (first > second) - (first < second);
}

// Stacks last used before this are evicted: idle ones, and a quarter of a table that is nearly full.
static uint64_t oldest_to_keep(const struct stack_table *table, uint64_t now_ns)
{
	uint64_t oldest_ns = ns_before(now_ns, STACK_IDLE_NS);
	uint32_t count = 0;

	if (stack_table_count(table) <= STACKS_KEPT)
		return oldest_ns;
	_cleanup_free_ uint64_t *times = malloc(table->entry_count * sizeof(*times));
	if (!times)
		return oldest_ns;
	for (uint32_t i = 0; i < table->entry_count; i++) {
		if (table->entries[i].used)
			times[count++] = table->entries[i].used_ns;
	}
	qsort(times, count, sizeof(*times), compare_ns);
	return times[count / 4] > oldest_ns ? times[count / 4] : oldest_ns;
}

void stack_table_expire(struct stack_table *table, uint64_t now_ns,
			void (*evict)(void *context, const struct stack_hash *hash), void *context)
{
	uint64_t oldest_ns = oldest_to_keep(table, now_ns);

	for (uint32_t i = 0; i < table->entry_count; i++) {
		struct stack_entry *entry = &table->entries[i];

		if (!entry->used)
			continue;
		if (entry->leaving) {
			free_entry(table, i);
		} else if (entry->used_ns < oldest_ns) {
			evict(context, &entry->hash);
			entry->leaving = true;
		}
	}
}

void stack_table_each(const struct stack_table *table,
		      void (*fn)(void *context, const struct known_stack *stack), void *context)
{
	for (uint32_t i = 0; i < table->entry_count; i++) {
		if (table->entries[i].used)
			fn(context, &table->entries[i].stack);
	}
}
