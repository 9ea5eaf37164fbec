// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/process_tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/id128.h"

void process_tally_deinit(struct process_tally *tally)
{
	free(tally->counts);
	hash_table_deinit(&tally->index);
	*tally = (struct process_tally){ 0 };
}

static bool has_pid(const void *context, uint32_t item, const void *pid)
{
	const struct process_tally *tally = context;

	return tally->counts[item].pid == *(const uint32_t *)pid;
}

static int grow(struct process_tally *tally)
{
	uint32_t capacity = tally->capacity ? tally->capacity * 2 : 256;
	struct process_count *counts = reallocarray(tally->counts, capacity, sizeof(*counts));

	if (!counts)
		return -1;
	tally->counts = counts;
	tally->capacity = capacity;
	return 0;
}

void process_tally_add(struct process_tally *tally, uint32_t pid, uint64_t count)
{
	uint64_t hash = hash64_of(&pid, sizeof(pid));
	uint32_t at = hash_table_find(&tally->index, hash, has_pid, tally, &pid);

	tally->sum += count;
	if (at != HASH_TABLE_NONE) {
		tally->counts[at].count += count;
		return;
	}
	if (tally->count == PROCESS_TALLY_MAX || (tally->count == tally->capacity && grow(tally)) ||
	    hash_table_add(&tally->index, hash, tally->count))
		return;
	tally->counts[tally->count++] = (struct process_count){ pid, count };
}

void process_tally_remove(struct process_tally *tally, uint32_t pid)
{
	uint32_t at =
		hash_table_find(&tally->index, hash64_of(&pid, sizeof(pid)), has_pid, tally, &pid);

	if (at == HASH_TABLE_NONE)
		return;
	tally->sum -= tally->counts[at].count;
	tally->counts[at].count = 0;
}

uint32_t process_tally_most(const struct process_tally *tally, struct process_count *ret_most,
			    uint32_t max)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < tally->count; i++) {
		const struct process_count *count = &tally->counts[i];
		uint32_t at = found;

		while (at > 0 && ret_most[at - 1].count < count->count)
			at--;
		if (at == max || !count->count)
			continue;
		if (found < max)
			found++;
		memmove(&ret_most[at + 1], &ret_most[at], (found - 1 - at) * sizeof(*ret_most));
		ret_most[at] = *count;
	}
	return found;
}

void process_tally_clear(struct process_tally *tally)
{
	hash_table_clear(&tally->index);
	tally->count = 0;
	tally->sum = 0;
}
