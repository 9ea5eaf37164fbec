// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/series_quota.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"

#define IDLE_NS       (3600 * NS_PER_SECOND)
#define IDLE_CHECK_NS (60 * NS_PER_SECOND)

/* A name or series: 32 bits of its hash suffice, as a mistake admits one too many. */
struct admitted {
	uint32_t hash;
	uint32_t used_seconds;
};

struct admitted_set {
	struct admitted *items;
	uint32_t count, capacity;
};

struct quota_process {
	struct process_key key;
	struct admitted_set names, series;
};

struct series_quota {
	struct quota_process *processes;
	uint32_t count, capacity;
	struct hash_table index; // by key
	uint64_t bytes;
	uint64_t now_ns, checked_ns;
};

// ---- life -----------------------------------------------------------------------------------

struct series_quota *series_quota_new(void)
{
	return calloc(1, sizeof(struct series_quota));
}

void series_quota_free(struct series_quota *quota)
{
	if (!quota)
		return;
	for (uint32_t i = 0; i < quota->count; i++) {
		free(quota->processes[i].names.items);
		free(quota->processes[i].series.items);
	}
	free(quota->processes);
	hash_table_deinit(&quota->index);
	free(quota);
}

uint32_t series_quota_process_count(const struct series_quota *quota)
{
	return quota->count;
}

// ---- processes ------------------------------------------------------------------------------

static uint64_t hash_of(const struct process_key *key)
{
	return hash64_of(key, sizeof(*key));
}

static bool key_equals(const void *context, uint32_t item, const void *key)
{
	const struct series_quota *quota = context;

	return memcmp(&quota->processes[item].key, key, sizeof(struct process_key)) == 0;
}

/* NULL: no memory is left for it. */
static struct quota_process *find_or_add(struct series_quota *quota, const struct process_key *key)
{
	uint64_t hash = hash_of(key);
	uint32_t item = hash_table_find(&quota->index, hash, key_equals, quota, key);

	if (item != HASH_TABLE_NONE)
		return &quota->processes[item];
	if (quota->bytes >= SERIES_QUOTA_BYTES_MAX ||
	    array_reserve(&quota->processes, sizeof(*quota->processes), &quota->capacity,
			  quota->count, 1, UINT32_MAX) ||
	    hash_table_add(&quota->index, hash, quota->count))
		return NULL;
	quota->bytes += sizeof(*quota->processes);
	quota->processes[quota->count] = (struct quota_process){ .key = *key };
	return &quota->processes[quota->count++];
}

// ---- names and series -----------------------------------------------------------------------

static uint32_t seconds_of(const struct series_quota *quota)
{
	return (uint32_t)(quota->now_ns / NS_PER_SECOND);
}

static int grow(struct series_quota *quota, struct admitted_set *set, uint32_t count_max)
{
	uint32_t before = set->capacity;

	if (set->count == set->capacity && quota->bytes >= SERIES_QUOTA_BYTES_MAX)
		return -ENOMEM;
	int rc = array_reserve(&set->items, sizeof(*set->items), &set->capacity, set->count, 1,
			       count_max);
	quota->bytes += (set->capacity - before) * sizeof(*set->items);
	return rc;
}

static bool admit(struct series_quota *quota, struct admitted_set *set, uint32_t count_max,
		  uint64_t hash)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (set->items[i].hash != (uint32_t)hash)
			continue;
		set->items[i].used_seconds = seconds_of(quota);
		return true;
	}
	if (grow(quota, set, count_max))
		return false;
	set->items[set->count++] = (struct admitted){ (uint32_t)hash, seconds_of(quota) };
	return true;
}

bool series_quota_admit_name(struct series_quota *quota, const struct process_key *process,
			     uint64_t name)
{
	struct quota_process *known = find_or_add(quota, process);

	return known && admit(quota, &known->names, PROCESS_THREAD_NAMES_MAX, name);
}

bool series_quota_admit_series(struct series_quota *quota, const struct process_key *process,
			       uint64_t series)
{
	struct quota_process *known = find_or_add(quota, process);

	return known && admit(quota, &known->series, PROCESS_SERIES_MAX, series);
}

// ---- expiry ---------------------------------------------------------------------------------

static void expire_set(const struct series_quota *quota, struct admitted_set *set)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < set->count; i++)
		if (seconds_of(quota) - set->items[i].used_seconds < IDLE_NS / NS_PER_SECOND)
			set->items[kept++] = set->items[i];
	set->count = kept;
}

static void drop_process(struct series_quota *quota, uint32_t item)
{
	struct quota_process *process = &quota->processes[item];
	uint32_t last = quota->count - 1;

	quota->bytes -= sizeof(*process) + (process->names.capacity + process->series.capacity) *
						   sizeof(struct admitted);
	free(process->names.items);
	free(process->series.items);
	hash_table_remove(&quota->index, hash_of(&process->key), item);
	if (item != last) {
		uint64_t hash = hash_of(&quota->processes[last].key);

		// Adding after a removal needs no memory.
		hash_table_remove(&quota->index, hash, last);
		hash_table_add(&quota->index, hash, item);
		quota->processes[item] = quota->processes[last];
	}
	quota->count--;
}

void series_quota_expire(struct series_quota *quota, uint64_t now_ns,
			 bool (*is_known)(void *context, const struct process_key *process),
			 void *context)
{
	quota->now_ns = now_ns;
	if (now_ns - quota->checked_ns < IDLE_CHECK_NS)
		return;
	quota->checked_ns = now_ns;
	for (uint32_t i = quota->count; i-- > 0;) {
		struct quota_process *process = &quota->processes[i];

		expire_set(quota, &process->names);
		expire_set(quota, &process->series);
		if ((!process->names.count && !process->series.count) ||
		    !is_known(context, &process->key))
			drop_process(quota, i);
	}
}
