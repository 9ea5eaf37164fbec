// SPDX-License-Identifier: Apache-2.0
// The series of one partition, and the label pairs that they have. Selections, label names and values
// are answered from here, without reading rows.
//
// Postings only grow, and by one thread at a time, under the partition's lock. Readers take a view
// under the same lock, which copies nothing, and read it without: what a user asks for never delays
// a batch.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "base/profile/profile.h"
#include "collector/store/rocksdb/record_limits.h"
#include "collector/store/rocksdb/rocksdb_db.h"
#include "collector/store/rocksdb/partition_quota.h"
#include "collector/store/selector.h"

enum {
	POSTINGS_SPANS = 64, // presence is recorded per 64th of a partition
};

#define POSTINGS_TYPE "__type__" // the profile type's name among the labels

struct label_pair {
	const char *name, *value; // in text blocks, which never move
};

struct indexed_series {
	struct id128 id; // of labels and type
	uint64_t slot_ns;
	_Atomic uint64_t presence; // bit n: rows in the partition's n-th 64th
	uint32_t type;             // a pair
	uint32_t group;
	uint32_t first_pair; // into series_pairs, sorted by name
	uint32_t pair_count; // without the type
};

/** A series whose rows and labels are deleted: an id that no labels have. */
static inline bool series_is_deleted(const struct indexed_series *series)
{
	return series->id.high == UINT64_MAX;
}

/** Series that share chunks: equal service, type and slot length. */
struct series_group {
	uint32_t service; // a pair, or HASH_TABLE_NONE
	uint32_t type;    // a pair
	uint64_t slot_ns;
	uint32_t series_count; // but deleted ones
};

struct text_block;

struct postings {
	atomic_uint refs;
	struct text_block *text;  // of the pairs, newest first
	struct label_pair *pairs; // shared arrays
	uint32_t pair_count, pair_capacity;
	struct indexed_series *series;
	uint32_t series_count, series_capacity;
	uint32_t *series_pairs;
	uint32_t series_pair_count, series_pair_capacity;
	struct series_group *groups; // for appending and closing only
	uint32_t group_count, group_capacity;
	struct hash_table pair_index, series_index, group_index;
	struct partition_quota quota;
	uint64_t text_bytes;
};

/** One reference, the caller's. NULL when out of memory. */
struct postings *postings_new(void);
void postings_unref(struct postings *postings);
uint64_t postings_memory(const struct postings *postings);

/** The series with @id and @slot_ns, or HASH_TABLE_NONE. */
uint32_t postings_find(const struct postings *postings, struct id128 id, uint64_t slot_ns);
/** Add a series that postings_find() did not find. Returns 0; -ENOMEM; -E2BIG at a limit. */
int postings_add(struct postings *postings, struct id128 id, const struct labels *labels,
		 const char *type, uint64_t slot_ns, uint32_t *ret_series);

/**
 * Find or add the series with @labels, or where a quota is full, that of the excess: *ret_level is whose, SERIES_LEVELS if none
 * is. @tenant_series_max as partition_quota_check() has it. Returns 0; -ENOMEM; -E2BIG if that quota is full, too.
 */
int postings_place(struct postings *postings, const struct labels *labels, const char *type,
		   uint64_t slot_ns, uint32_t tenant_series_max, uint32_t *ret_series,
		   enum series_level *ret_level);

/** Append the series from number @first on as a record; nothing if there are none. */
void postings_encode(const struct postings *postings, uint32_t first, struct buffer *record);
int postings_decode(struct postings *postings, struct bytes record, struct error *err);
/**
 * Append all series as one record, without the labels of those that are present nowhere. Their numbers
 * and groups stay, but nobody finds them. Returns 0 or -ENOMEM.
 */
int postings_encode_present(const struct postings *postings, struct buffer *record);

/** Postings as they were when the view was taken. Presence is newer where it changed since. */
struct postings_view {
	struct postings *postings; // a reference, for the text
	const struct label_pair *pairs;
	const struct indexed_series *series;
	const uint32_t *series_pairs;
	uint32_t pair_count, series_count, group_count;
};
/** Take a view. The partition's lock is held. */
struct postings_view postings_view(struct postings *postings);
/** Release it, with or without the lock. A zeroed view is allowed. */
void postings_view_deinit(struct postings_view *view);

/** A set of series, one bit per series. */
struct series_set {
	uint64_t *words;
	uint32_t series_count;
};
void series_set_deinit(struct series_set *set);
static inline bool series_set_has(const struct series_set *set, uint32_t series)
{
	return series < set->series_count && set->words[series / 64] >> (series % 64) & 1;
}

/**
 * Select the series that match @selector (NULL: any), have @type (NULL: any) and rows in a 64th of
 * @presence. Each matcher runs once per label value. Patterns may take seconds: hold no lock. Returns 0
 * or -ENOMEM; selector_check_cost() says whether the set is complete.
 */
int postings_select(const struct postings_view *view, const struct selector *selector,
		    const char *type, uint64_t presence, struct series_set *ret_set);
