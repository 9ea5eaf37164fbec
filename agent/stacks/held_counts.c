// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/held_counts.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

struct held_count {
	struct count_key key;
	struct count count;
};

struct held_counts {
	struct held_count *counts;
	uint32_t count, capacity;
	uint64_t full;
	bool is_stopped;
};

struct held_counts *held_counts_new(void)
{
	return calloc(1, sizeof(struct held_counts));
}

void held_counts_free(struct held_counts *held)
{
	if (!held)
		return;
	free(held->counts);
	free(held);
}

bool held_counts_add(struct held_counts *held, const struct count_key *key,
		     const struct count *count)
{
	if (held->is_stopped)
		return false;
	if (array_reserve(&held->counts, sizeof(*held->counts), &held->capacity, held->count, 1,
			  HELD_COUNTS_MAX)) {
		held->full++;
		return false;
	}
	held->counts[held->count++] = (struct held_count){ *key, *count };
	return true;
}

int held_counts_release(struct held_counts *held,
			int (*fn)(void *context, const struct count_key *key,
				  const struct count *count),
			void *context)
{
	_cleanup_free_ struct held_count *counts = take(held->counts);
	uint32_t count = held->count;
	int rc = 0;

	held->count = held->capacity = 0;
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = fn(context, &counts[i].key, &counts[i].count);
	return rc;
}

void held_counts_stop(struct held_counts *held)
{
	held->is_stopped = true;
}

uint64_t held_counts_full(const struct held_counts *held)
{
	return held->full;
}
