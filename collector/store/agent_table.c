// SPDX-License-Identifier: Apache-2.0
#include "collector/store/agent_table.h"

#include <stdlib.h>

#include "base/array.h"

static bool entry_equal(const void *context, uint32_t item, const void *key)
{
	const struct agent_entry *entry = &((const struct agent_table *)context)->entries[item];
	const struct store_batch_id *batch = key;

	return id128_equal(entry->agent, batch->agent) && id128_equal(entry->boot, batch->boot);
}

static uint64_t hash_of(struct id128 agent, struct id128 boot)
{
	uint64_t words[] = { agent.high, agent.low, boot.high, boot.low };

	return hash64_of(words, sizeof(words));
}

void agent_table_deinit(struct agent_table *table)
{
	free(table->entries);
	hash_table_deinit(&table->index);
	*table = (struct agent_table){ 0 };
}

static uint32_t find(const struct agent_table *table, const struct store_batch_id *batch)
{
	return hash_table_find(&table->index, hash_of(batch->agent, batch->boot), entry_equal,
			       table, batch);
}

uint64_t agent_table_find(const struct agent_table *table, const struct store_batch_id *batch)
{
	uint32_t at = find(table, batch);

	return at == HASH_TABLE_NONE ? 0 : table->entries[at].sequence;
}

static int add(struct agent_table *table, const struct store_batch_id *batch, uint32_t *ret_at)
{
	uint32_t at = table->count;
	int rc = array_reserve(&table->entries, sizeof(*table->entries), &table->capacity, at, 1,
			       AGENTS_MAX);

	if (rc == 0)
		rc = hash_table_add(&table->index, hash_of(batch->agent, batch->boot), at);
	if (rc < 0)
		return rc;
	table->entries[at] = (struct agent_entry){ .agent = batch->agent, .boot = batch->boot };
	table->count++;
	*ret_at = at;
	return 0;
}

int agent_table_reserve(struct agent_table *table, const struct store_batch_id *batch)
{
	uint32_t at = find(table, batch);

	return at == HASH_TABLE_NONE ? add(table, batch, &at) : 0;
}

int agent_table_set(struct agent_table *table, const struct store_batch_id *batch, uint64_t seen_ns)
{
	uint32_t at = find(table, batch);
	int rc = at == HASH_TABLE_NONE ? add(table, batch, &at) : 0;

	if (rc < 0)
		return rc;
	table->entries[at].sequence = batch->sequence;
	table->entries[at].seen_ns = seen_ns;
	return 0;
}

int agent_table_expire(struct agent_table *table, uint64_t before_ns, void *context,
		       void (*removed)(void *context, const struct agent_entry *entry))
{
	uint32_t kept = 0;
	int rc = 0;

	for (uint32_t i = 0; i < table->count; i++) {
		if (table->entries[i].seen_ns < before_ns)
			removed(context, &table->entries[i]);
		else
			table->entries[kept++] = table->entries[i];
	}
	if (kept == table->count)
		return 0;
	table->count = kept;
	hash_table_clear(&table->index);
	for (uint32_t i = 0; i < kept && rc == 0; i++)
		rc = hash_table_add(&table->index,
				    hash_of(table->entries[i].agent, table->entries[i].boot), i);
	return rc;
}
