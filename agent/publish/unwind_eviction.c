// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/unwind_eviction.h"

#include <stdlib.h>

#include "agent/guard/shares.h"
#include "base/last_use.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"

enum {
	EVICTED_SHARE = 16, // the least recently sampled, when there is no space
	GREEDY_TIMES = 2,   // who has so many times as much gives first: nobody evicts in turns
};

// ---- processes ------------------------------------------------------------------------------

// Whose processes go, by places and pages for mappings; 0: anybody's.
static uint64_t find_loser(const struct published_processes *published,
			   const struct published *kept)
{
	struct shares shares = { 0 };

	for (uint32_t i = 0; i < published->slot_count; i++)
		if (published->records[i].key.pid)
			shares_take(&shares, published->records[i].payer,
				    published->records[i].page_count + 1);
	if (!kept)
		return 0;
	uint64_t greediest = shares_greediest(&shares);
	bool has_far_more = shares_of(&shares, greediest) >
			    GREEDY_TIMES * (shares_of(&shares, kept->payer) + 1);
	return has_far_more ? greediest : 0;
}

void unwind_evict_processes(struct published_processes *published, const struct published *kept,
			    unwind_evict_fn withdraw, void *context)
{
	_cleanup_free_ struct last_use *candidates =
		calloc(published->slot_count + 1, sizeof(*candidates));
	uint32_t count = 0;

	if (!candidates)
		return;
	uint64_t loser = find_loser(published, kept);
	for (uint32_t i = 0; i < published->slot_count; i++)
		if (published->records[i].key.pid && &published->records[i] != kept &&
		    (!loser || published->records[i].payer == loser))
			candidates[count++] = (struct last_use){ published->records[i].used_ns, i };
	qsort(candidates, count, sizeof(*candidates), last_use_compare);
	for (uint32_t i = 0; i < count && i <= count / EVICTED_SHARE; i++)
		withdraw(context, &published->records[candidates[i].item]);
}

// ---- tables ---------------------------------------------------------------------------------

static int compare_files(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

static bool maps_file(const struct published *record, uint32_t file)
{
	return record->file_count && bsearch(&file, record->files, record->file_count,
					     sizeof(*record->files), compare_files);
}

static void report_uses(struct unwind_tables *tables, const struct published_processes *published)
{
	for (uint32_t i = 0; i < published->slot_count; i++) {
		const struct published *record = &published->records[i];

		for (uint32_t j = 0; j < record->file_count; j++)
			unwind_tables_use(tables, record->files[j], record->used_ns);
	}
}

static bool evict(struct unwind_tables *tables, struct published_processes *published,
		  uint32_t file, unwind_evict_fn republish, void *context)
{
	if (unwind_tables_withdraw(tables, file))
		return false;
	for (uint32_t i = 0; i < published->slot_count; i++)
		if (maps_file(&published->records[i], file))
			republish(context, &published->records[i]);
	unwind_tables_remove(tables, file);
	return true;
}

bool unwind_evict_tables(struct unwind_tables *tables, struct published_processes *published,
			 uint32_t wanting, uint64_t kept_ns, unwind_evict_fn republish,
			 void *context)
{
	uint64_t wanted = unwind_tables_shortage(tables, wanting), freed = 0;
	uint64_t now_ns = clock_monotonic_ns();

	report_uses(tables, published);
	// Evict nothing if that would not be enough.
	if (unwind_tables_spare_bytes(tables, now_ns, kept_ns, wanting) < wanted)
		return false;
	do {
		uint32_t file = unwind_tables_victim(tables, now_ns, kept_ns, wanting);
		uint64_t bytes =
			file == HASH_TABLE_NONE ? 0 : unwind_tables_file(tables, file)->bytes;

		if (!bytes || !evict(tables, published, file, republish, context))
			break;
		freed += bytes;
	} while (freed < wanted);
	return freed > 0;
}
