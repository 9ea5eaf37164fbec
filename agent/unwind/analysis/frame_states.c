// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/analysis/frame_states.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/id128.h"

/* A lookup, which counts comparisons. */
struct wanted {
	const struct frame_state *state;
	uint64_t compared;
};

static bool is_same(const void *context, uint32_t item, const void *key)
{
	const struct frame_states *states = context;
	struct wanted *wanted = (struct wanted *)key;

	wanted->compared++;
	return memcmp(&states->known[item], wanted->state, sizeof(*wanted->state)) == 0;
}

int frame_states_init(struct frame_states *states)
{
	static const struct frame_state entry = { .cfa_offset = 8, .slot = -1 };

	*states = (struct frame_states){ .count = STATE_ENTRY };
	states->known = calloc(FRAME_STATES_MAX, sizeof(*states->known));
	if (!states->known || frame_states_number(states, &entry) != STATE_ENTRY)
		return -ENOMEM;
	return 0;
}

void frame_states_deinit(struct frame_states *states)
{
	free(states->known);
	hash_table_deinit(&states->by_state);
}

uint16_t frame_states_number(struct frame_states *states, const struct frame_state *state)
{
	uint64_t hash = hash64_of(state, sizeof(*state));
	struct wanted wanted = { state, 0 };
	uint32_t number = hash_table_find(&states->by_state, hash, is_same, states, &wanted);

	states->compared += wanted.compared;
	if (number != HASH_TABLE_NONE)
		return (uint16_t)number;
	if (states->count == FRAME_STATES_MAX ||
	    hash_table_add(&states->by_state, hash, states->count))
		return STATE_LOST;
	states->known[states->count] = *state;
	return (uint16_t)states->count++;
}
