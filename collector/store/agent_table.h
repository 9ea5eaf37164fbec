// SPDX-License-Identifier: Apache-2.0
// The last acknowledged sequence of each agent: a batch that arrives again is not stored again.
//
// An entry belongs to whoever sent the batch (store_batch_id.identity), so nobody can acknowledge in
// another's name. A full table evicts the oldest entry of the identity that has the most: who fills it
// with invented starts loses its own, and a new agent is always accepted. Each push is an entry, too:
// only pushes are evicted while they have more than half of the table, otherwise only agents.
// One thread at a time.
#pragma once

#include <stdint.h>

#include "base/hash_table.h"
#include "collector/store/store.h"

enum {
	// Each start of an agent is a new boot id and a new entry. 10,000 agents that restart daily
	// stay below this for the week that entries live.
	AGENTS_MAX = 128 << 10,
	// The next sequence of a boot is at most this much higher: gaps are batches that the agent
	// dropped, and 60 days of them are more than any entry lives.
	SEQUENCE_JUMP_MAX = 1 << 20,
};

#define SEQUENCE_MAX (1ULL << 48) // 40 million years of export intervals

struct agent_entry {
	struct id128 identity, agent, boot;
	uint64_t sequence;     // the last one stored; 0: none yet
	uint64_t seen_ns;      // Unix time
	uint64_t turn;         // in which it was seen last; the lists are in this order
	uint32_t older, newer; // entries of the same identity; HASH_TABLE_NONE: none
};

struct agent_identity {
	struct id128 id;
	uint32_t count;          // of its entries
	uint32_t oldest, newest; // of its entries
};

/** A zeroed struct is an empty table. */
struct agent_table {
	struct agent_entry *entries;
	struct agent_identity *identities;
	uint32_t count, capacity;
	uint32_t identity_count, identity_capacity;
	uint32_t count_max;               // 0: AGENTS_MAX
	uint32_t pushes;                  // of count
	uint64_t turn;                    // counts writes: what was seen in this one is not evicted
	uint64_t evicted, evicted_pushes; // agents' starts; pushes
	struct hash_table index, identity_index;
};

/** Called with an entry that is about to go. */
typedef void (*agent_removed_fn)(void *context, const struct agent_entry *entry);

void agent_table_deinit(struct agent_table *table);
/** The last stored sequence of the batch's identity, agent and boot; 0 if there is none. */
uint64_t agent_table_find(const struct agent_table *table, const struct store_batch_id *batch);
/** Begin another write: reservations are kept until the next. */
void agent_table_begin(struct agent_table *table);
/**
 * Make room for the batch's agent and boot, which count as seen now. A full table evicts an entry.
 * Returns 0; -ENOMEM; -E2BIG if all entries were seen in this write.
 */
int agent_table_reserve(struct agent_table *table, const struct store_batch_id *batch,
			uint64_t now_ns, void *context, agent_removed_fn removed);
/** Record the batch's sequence; agent_table_reserve() has made room. */
void agent_table_set(struct agent_table *table, const struct store_batch_id *batch);
/** Add an entry of the last process; those seen first come first. Returns 0; -ENOMEM; -E2BIG. */
int agent_table_restore(struct agent_table *table, const struct store_batch_id *batch,
			uint64_t seen_ns);
/** Remove entries not seen since @before_ns; @removed is called with each. */
void agent_table_expire(struct agent_table *table, uint64_t before_ns, void *context,
			agent_removed_fn removed);
