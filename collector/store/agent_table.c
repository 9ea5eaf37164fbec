// SPDX-License-Identifier: Apache-2.0
#include "collector/store/agent_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

static bool entry_equal(const void *context, uint32_t item, const void *key)
{
	const struct agent_entry *entry = &((const struct agent_table *)context)->entries[item];
	const struct store_batch_id *batch = key;

	return id128_equal(entry->identity, batch->identity) &&
	       id128_equal(entry->agent, batch->agent) && id128_equal(entry->boot, batch->boot);
}

static bool identity_equal(const void *context, uint32_t item, const void *key)
{
	const struct agent_table *table = context;

	return id128_equal(table->identities[item].id, *(const struct id128 *)key);
}

static uint64_t hash_of(struct id128 identity, struct id128 agent, struct id128 boot)
{
	uint64_t words[] = {
		identity.high, identity.low, agent.high, agent.low, boot.high, boot.low
	};

	return hash64_of(words, sizeof(words));
}

static bool is_push(const struct agent_entry *entry)
{
	return id128_equal(entry->agent, entry->boot);
}

static uint64_t entry_hash(const struct agent_entry *entry)
{
	return hash_of(entry->identity, entry->agent, entry->boot);
}

static uint64_t identity_hash(struct id128 id)
{
	return hash64_of(&id, sizeof(id));
}

void agent_table_deinit(struct agent_table *table)
{
	free(table->entries);
	free(table->identities);
	hash_table_deinit(&table->index);
	hash_table_deinit(&table->identity_index);
	*table = (struct agent_table){ 0 };
}

static uint32_t find(const struct agent_table *table, const struct store_batch_id *batch)
{
	return hash_table_find(&table->index, hash_of(batch->identity, batch->agent, batch->boot),
			       entry_equal, table, batch);
}

uint64_t agent_table_find(const struct agent_table *table, const struct store_batch_id *batch)
{
	uint32_t at = find(table, batch);

	return at == HASH_TABLE_NONE ? 0 : table->entries[at].sequence;
}

// ---- identities -------------------------------------------------------------------------------------

static uint32_t find_identity(const struct agent_table *table, struct id128 id)
{
	return hash_table_find(&table->identity_index, identity_hash(id), identity_equal, table,
			       &id);
}

static int add_identity(struct agent_table *table, struct id128 id)
{
	uint32_t at = table->identity_count;

	if (find_identity(table, id) != HASH_TABLE_NONE)
		return 0;
	int rc = array_reserve(&table->identities, sizeof(*table->identities),
			       &table->identity_capacity, at, 1, AGENTS_MAX + 1);
	if (rc == 0)
		rc = hash_table_add(&table->identity_index, identity_hash(id), at);
	if (rc < 0)
		return rc;
	table->identities[at] = (struct agent_identity){ id, 0, HASH_TABLE_NONE, HASH_TABLE_NONE };
	table->identity_count++;
	return 0;
}

static void remove_identity(struct agent_table *table, uint32_t at)
{
	uint32_t last = --table->identity_count;

	hash_table_remove(&table->identity_index, identity_hash(table->identities[at].id), at);
	if (at == last)
		return;
	uint64_t hash = identity_hash(table->identities[last].id);
	hash_table_remove(&table->identity_index, hash, last);
	int rc = hash_table_add(&table->identity_index, hash, at);
	assert(rc == 0); // two items went, one came
	table->identities[at] = table->identities[last];
}

/** Where entries point to their neighbours, or the identity to its ends. */
static uint32_t *newer_of(struct agent_table *table, struct agent_identity *identity, uint32_t at)
{
	return at == HASH_TABLE_NONE ? &identity->oldest : &table->entries[at].newer;
}

static uint32_t *older_of(struct agent_table *table, struct agent_identity *identity, uint32_t at)
{
	return at == HASH_TABLE_NONE ? &identity->newest : &table->entries[at].older;
}

static struct agent_identity *identity_of(struct agent_table *table, uint32_t at)
{
	return &table->identities[find_identity(table, table->entries[at].identity)];
}

static void unlink_entry(struct agent_table *table, uint32_t at)
{
	struct agent_identity *identity = identity_of(table, at);
	const struct agent_entry *entry = &table->entries[at];

	*newer_of(table, identity, entry->older) = entry->newer;
	*older_of(table, identity, entry->newer) = entry->older;
	identity->count--;
}

/** Link entry @at as the newest. By turns, not by time: a clock may be set back. */
static void link_entry(struct agent_table *table, uint32_t at)
{
	struct agent_identity *identity = identity_of(table, at);
	struct agent_entry *entry = &table->entries[at];

	entry->turn = table->turn;
	entry->older = identity->newest;
	entry->newer = HASH_TABLE_NONE;
	*newer_of(table, identity, entry->older) = at;
	identity->newest = at;
	identity->count++;
}

// ---- entries ----------------------------------------------------------------------------------------

static void remove_entry(struct agent_table *table, uint32_t at)
{
	struct id128 id = table->entries[at].identity;
	uint32_t last = table->count - 1;

	table->pushes -= is_push(&table->entries[at]);
	unlink_entry(table, at);
	hash_table_remove(&table->index, entry_hash(&table->entries[at]), at);
	if (at != last) {
		uint64_t hash = entry_hash(&table->entries[last]);
		struct agent_identity *identity = identity_of(table, last);

		hash_table_remove(&table->index, hash, last);
		int rc = hash_table_add(&table->index, hash, at);
		assert(rc == 0); // two items went, one came
		table->entries[at] = table->entries[last];
		*newer_of(table, identity, table->entries[at].older) = at;
		*older_of(table, identity, table->entries[at].newer) = at;
	}
	table->count--;
	uint32_t owner = find_identity(table, id);
	if (!table->identities[owner].count)
		remove_identity(table, owner);
}

/** Of pushes or of agents the oldest entry of the identity that has the most, and of these the one seen longest ago. */
static uint32_t choose_of(const struct agent_table *table, bool pushes)
{
	uint32_t chosen = HASH_TABLE_NONE, count = 0;

	for (uint32_t i = 0; i < table->identity_count; i++) {
		const struct agent_identity *identity = &table->identities[i];
		const struct agent_entry *oldest = &table->entries[identity->oldest];
		uint64_t turn = oldest->turn;

		if (turn == table->turn || identity->count < count || is_push(oldest) != pushes)
			continue;
		if (identity->count > count || turn < table->entries[chosen].turn) {
			chosen = identity->oldest;
			count = identity->count;
		}
	}
	return chosen;
}

/** Who would have more than half of the table with one entry more, a push or not, loses one. */
static uint32_t choose_evicted(const struct agent_table *table, bool adds_push)
{
	bool pushes = table->pushes + adds_push > table->count / 2;
	uint32_t chosen = choose_of(table, pushes);

	return chosen == HASH_TABLE_NONE ? choose_of(table, !pushes) : chosen;
}

static int add(struct agent_table *table, const struct store_batch_id *batch, uint64_t seen_ns)
{
	uint32_t at = table->count;
	int rc = array_reserve(&table->entries, sizeof(*table->entries), &table->capacity, at, 1,
			       AGENTS_MAX);

	if (rc == 0)
		rc = add_identity(table, batch->identity);
	if (rc < 0)
		return rc;
	table->entries[at] = (struct agent_entry){ .identity = batch->identity,
						   .agent = batch->agent,
						   .boot = batch->boot,
						   .sequence = batch->sequence,
						   .seen_ns = seen_ns };
	rc = hash_table_add(&table->index, entry_hash(&table->entries[at]), at);
	if (rc < 0) {
		uint32_t owner = find_identity(table, batch->identity);

		if (!table->identities[owner].count)
			remove_identity(table, owner);
		return rc;
	}
	table->count++;
	table->pushes += store_batch_is_push(batch);
	link_entry(table, at);
	return 0;
}

static bool is_full(const struct agent_table *table)
{
	return table->count >= (table->count_max ? table->count_max : AGENTS_MAX);
}

void agent_table_begin(struct agent_table *table)
{
	table->turn++;
}

int agent_table_reserve(struct agent_table *table, const struct store_batch_id *batch,
			uint64_t now_ns, void *context, agent_removed_fn removed)
{
	struct store_batch_id empty = *batch;
	uint32_t at = find(table, batch);

	if (at != HASH_TABLE_NONE) {
		unlink_entry(table, at);
		table->entries[at].seen_ns = now_ns;
		link_entry(table, at);
		return 0;
	}
	if (is_full(table)) {
		uint32_t evicted = choose_evicted(table, store_batch_is_push(batch));

		if (evicted == HASH_TABLE_NONE)
			return -E2BIG;
		bool push = is_push(&table->entries[evicted]);
		removed(context, &table->entries[evicted]);
		remove_entry(table, evicted);
		*(push ? &table->evicted_pushes : &table->evicted) += 1;
	}
	empty.sequence = 0;
	return add(table, &empty, now_ns);
}

void agent_table_set(struct agent_table *table, const struct store_batch_id *batch)
{
	uint32_t at = find(table, batch);

	assert(at != HASH_TABLE_NONE); // reserved, and not evicted since: it was seen now
	table->entries[at].sequence = batch->sequence;
}

int agent_table_restore(struct agent_table *table, const struct store_batch_id *batch,
			uint64_t seen_ns)
{
	return find(table, batch) == HASH_TABLE_NONE ? add(table, batch, seen_ns) : 0;
}

void agent_table_expire(struct agent_table *table, uint64_t before_ns, void *context,
			agent_removed_fn removed)
{
	for (uint32_t i = table->count; i-- > 0;) {
		if (table->entries[i].seen_ns >= before_ns)
			continue;
		removed(context, &table->entries[i]);
		remove_entry(table, i); // the last entry takes its place: it was looked at
	}
}
