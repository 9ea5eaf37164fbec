// SPDX-License-Identifier: Apache-2.0
// The last acknowledged sequence of each agent: a batch that arrives again is not stored again.
// One thread at a time.
#pragma once

#include <stdint.h>

#include "base/hash_table.h"
#include "collector/store/store.h"

enum {
	// Each start of an agent is a new boot id and a new entry. 10,000 agents that restart daily
	// stay below this for the week that entries live.
	AGENTS_MAX = 128 << 10,
};

struct agent_entry {
	struct id128 agent, boot;
	uint64_t sequence; // the last one stored
	uint64_t seen_ns;  // Unix time
};

/** A zeroed struct is an empty table. */
struct agent_table {
	struct agent_entry *entries;
	uint32_t count, capacity;
	struct hash_table index;
};

void agent_table_deinit(struct agent_table *table);
/** The last stored sequence of the batch's agent and boot; 0 if there is none. */
uint64_t agent_table_find(const struct agent_table *table, const struct store_batch_id *batch);
/** Make room for the batch's agent and boot. Returns 0; -ENOMEM; -E2BIG at AGENTS_MAX. */
int agent_table_reserve(struct agent_table *table, const struct store_batch_id *batch);
/** Record the batch's sequence. Returns as above; cannot fail after agent_table_reserve(). */
int agent_table_set(struct agent_table *table, const struct store_batch_id *batch,
		    uint64_t seen_ns);
/** Remove entries not seen since @before_ns; @removed is called with each. */
int agent_table_expire(struct agent_table *table, uint64_t before_ns, void *context,
		       void (*removed)(void *context, const struct agent_entry *entry));
