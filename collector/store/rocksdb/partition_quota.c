// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/partition_quota.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"

static const struct {
	const char *name; // the value of label `other`
	uint32_t series_max;
} levels[] = {
	[SERIES_PROCESS] = { "process", SERIES_PER_PROCESS_MAX },
	[SERIES_SERVICE] = { "service", SERIES_PER_SERVICE_MAX },
	[SERIES_NODE] = { "node", SERIES_PER_NODE_MAX },
	[SERIES_TENANT] = { "tenant", SERIES_PER_TENANT_MAX },
	[SERIES_COLLECTOR] = { "collector", POSTINGS_SERIES_MAX - SERIES_OF_EXCESS_MAX },
};

/** Labels that differ within a process, and what a process can invent of them. */
static const struct {
	const char *name;
	bool is_unbounded;
} inner_labels[] = {
	{ LABEL_THREAD, true },        { LABEL_COMMUNICATOR, true }, { LABEL_RANK, true },
	{ LABEL_RANKS, true },         { LABEL_PID, true },          { LABEL_COMM, true },
	{ LABEL_WAIT, false },         { LABEL_STATE, false },       { LABEL_DIRECTION, false },
	{ LABEL_MEMORY, false },       { LABEL_GRID, false },        { LABEL_COLLECTIVE, false },
	{ LABEL_GPU, false },          { LABEL_GPU_UUID, false },    { LABEL_GPU_MODEL, false },
	{ LABEL_GPU_INSTANCE, false }, { LABEL_REASON, false },      { LABEL_PROGRAM, false },
	{ LABEL_COUNTER, false },      { LABEL_KNOB, false },        { LABEL_STEP, false },
};

static bool is_inner(const char *name, bool only_unbounded)
{
	for (size_t i = 0; i < ARRAY_SIZE(inner_labels); i++)
		if (strcmp(name, inner_labels[i].name) == 0)
			return inner_labels[i].is_unbounded || !only_unbounded;
	return false;
}

void partition_quota_deinit(struct partition_quota *quota)
{
	free(quota->counts);
	hash_table_deinit(&quota->index);
	*quota = (struct partition_quota){ 0 };
}

uint64_t partition_quota_memory(const struct partition_quota *quota)
{
	return (uint64_t)quota->capacity * sizeof(*quota->counts) +
	       (uint64_t)quota->index.slot_count * sizeof(*quota->index.slots);
}

// ---- keys -------------------------------------------------------------------------------------------

static bool is_of_key(enum series_level level, const char *name)
{
	switch (level) {
	case SERIES_PROCESS:
		return !is_inner(name, false);
	case SERIES_SERVICE:
		return strcmp(name, LABEL_SERVICE) == 0 || strcmp(name, LABEL_TENANT) == 0;
	case SERIES_NODE:
		return strcmp(name, LABEL_NODE) == 0 || strcmp(name, LABEL_TENANT) == 0;
	case SERIES_TENANT:
		return strcmp(name, LABEL_TENANT) == 0;
	default:
		return false;
	}
}

/** The key of @pairs at @level. False: they have none, and no quota there. */
static bool key_at(enum series_level level, const struct label *pairs, uint32_t count,
		   struct id128 *ret_key)
{
	struct {
		struct id128 before, name, value;
	} link = { .before = { level, 0 } };
	// Series without a tenant are those of one, too.
	bool has_key = level == SERIES_TENANT;

	for (uint32_t i = 0; i < count; i++) {
		if (!is_of_key(level, pairs[i].name))
			continue;
		has_key = true;
		link.name = id128_of(pairs[i].name, strlen(pairs[i].name));
		link.value = id128_of(pairs[i].value, strlen(pairs[i].value));
		link.before = id128_of(&link, sizeof(link));
	}
	*ret_key = link.before;
	return has_key;
}

/** The level of a series of the excess, which counts for wider ones only; -1: an ordinary one. */
static int level_of(const struct label *pairs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strcmp(pairs[i].name, LABEL_OTHER) != 0)
			continue;
		for (int level = 0; level < SERIES_LEVELS; level++)
			if (strcmp(pairs[i].value, levels[level].name) == 0)
				return level;
	}
	return -1;
}

static bool key_equal(const void *context, uint32_t item, const void *key)
{
	const struct partition_quota *quota = context;

	return id128_equal(quota->counts[item].key, *(const struct id128 *)key);
}

static uint32_t find(const struct partition_quota *quota, struct id128 key)
{
	return hash_table_find(&quota->index, id128_hash(key), key_equal, quota, &key);
}

// ---- counting ---------------------------------------------------------------------------------------

static bool has_tenant(const struct label *pairs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(pairs[i].name, LABEL_TENANT) == 0)
			return true;
	return false;
}

static uint32_t series_max_of(enum series_level level, const struct label *pairs, uint32_t count,
			      uint32_t tenant_series_max)
{
	if (level != SERIES_TENANT)
		return levels[level].series_max;
	if (tenant_series_max)
		return tenant_series_max;
	return has_tenant(pairs, count) ? levels[level].series_max : UINT32_MAX;
}

enum series_level partition_quota_check(const struct partition_quota *quota,
					const struct label *pairs, uint32_t count,
					uint32_t tenant_series_max)
{
	int level = level_of(pairs, count) + 1;
	struct id128 key;

	for (; level < SERIES_COLLECTOR; level++) {
		if (!key_at((enum series_level)level, pairs, count, &key))
			continue;
		uint32_t at = find(quota, key);
		if (at != HASH_TABLE_NONE &&
		    quota->counts[at].series >= series_max_of((enum series_level)level, pairs,
							      count, tenant_series_max))
			return (enum series_level)level;
	}
	if (level == SERIES_COLLECTOR && quota->series >= levels[level].series_max)
		return SERIES_COLLECTOR;
	return SERIES_LEVELS;
}

/** Find or add the count of @key. */
static int reserve(struct partition_quota *quota, struct id128 key, uint32_t *ret_at)
{
	*ret_at = find(quota, key);
	if (*ret_at != HASH_TABLE_NONE)
		return 0;
	int rc = array_reserve(&quota->counts, sizeof(*quota->counts), &quota->capacity,
			       quota->count, 1, SERIES_COLLECTOR * POSTINGS_SERIES_MAX);
	if (rc == 0)
		rc = hash_table_add(&quota->index, id128_hash(key), quota->count);
	if (rc < 0)
		return rc;
	quota->counts[quota->count] = (struct series_count){ .key = key };
	*ret_at = quota->count++;
	return 0;
}

int partition_quota_add(struct partition_quota *quota, const struct label *pairs, uint32_t count)
{
	int level = level_of(pairs, count) + 1;
	uint32_t at[SERIES_COLLECTOR], at_count = 0;
	struct id128 key;

	for (; level < SERIES_COLLECTOR; level++) {
		if (!key_at((enum series_level)level, pairs, count, &key))
			continue;
		int rc = reserve(quota, key, &at[at_count++]);
		if (rc < 0)
			return rc;
	}
	for (uint32_t i = 0; i < at_count; i++)
		quota->counts[at[i]].series++;
	quota->series++;
	return 0;
}

int series_of_excess(enum series_level level, const struct labels *labels,
		     struct labels *ret_labels)
{
	_cleanup_(labels_deinit) struct labels kept = { 0 };
	int rc = labels_set(&kept, LABEL_OTHER, levels[level].name);
	const char *tenant = labels_get(labels, LABEL_TENANT);

	// First: without it the series would be another tenant's, or nobody's.
	if (rc == 0 && tenant)
		rc = labels_set(&kept, LABEL_TENANT, tenant);
	for (uint32_t i = 0; i < labels->count && rc == 0; i++) {
		const struct label *pair = &labels->pairs[i];
		bool is_kept = level == SERIES_PROCESS     ? !is_inner(pair->name, true)
			       : level == SERIES_COLLECTOR ? is_of_key(SERIES_TENANT, pair->name)
							   : is_of_key(level, pair->name);

		// Of LABELS_MAX labels the last has no room beside `other`.
		if (is_kept && strcmp(pair->name, LABEL_OTHER) != 0 && kept.count < LABELS_MAX)
			rc = labels_set(&kept, pair->name, pair->value);
	}
	if (rc == 0) {
		*ret_labels = kept;
		kept = (struct labels){ 0 };
	}
	return rc;
}
