// SPDX-License-Identifier: Apache-2.0
// Tombstones: what is deleted of a partition and may still be on disk. Every read leaves it out, until
// the partition is rewritten without it.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "collector/store/rocksdb/record_limits.h"
#include "collector/store/rocksdb/rocksdb_db.h"

enum {
	// Of one partition: a set of them is one word of bits. More deletions wait until it is rewritten.
	TOMBSTONES_MAX = 64,
	// Series in all tombstones of the store: 16 MiB of memory. 720 hours of a tenant with 5,000 series.
	TOMBSTONE_SERIES_MAX = 4 << 20,
};

/** Deleted are the rows of its series in its minutes that were committed up to its sequence. Immutable. */
struct tombstone {
	atomic_uint refs;
	uint64_t number;                    // in its key
	uint64_t sequence;                  // of the last commit that it covers
	uint32_t first_minute, last_minute; // of the partition, both included
	uint32_t series_count;
	uint32_t series[]; // ascending
};

/** One reference, the caller's; its series are to be filled in. NULL when out of memory. */
struct tombstone *tombstone_new(uint32_t series_count);
void tombstone_unref(struct tombstone *tombstone);
void tombstone_encode(const struct tombstone *tombstone, struct buffer *record);
/** Returns 0; -EBADMSG; -ENOMEM. */
int tombstone_decode(uint64_t number, struct bytes record, struct tombstone **ret_tombstone);

/** The tombstones of a partition. Immutable: readers keep the list that they found. */
struct tombstone_list {
	atomic_uint refs;
	uint32_t count;
	uint64_t series_count; // of all together
	struct tombstone *tombstones[];
};

/** A list of @list's (NULL: none) and @tombstone. -E2BIG above TOMBSTONES_MAX; -ENOMEM. */
int tombstone_list_add(const struct tombstone_list *list, struct tombstone *tombstone,
		       struct tombstone_list **ret_list);
/** A list of those of @list that are not in @done. *ret_list is NULL if none are left. 0 or -ENOMEM. */
int tombstone_list_remove(const struct tombstone_list *list, const struct tombstone_list *done,
			  struct tombstone_list **ret_list);
/** NULL is allowed, here and below: a list without tombstones. */
struct tombstone_list *tombstone_list_ref(struct tombstone_list *list);
void tombstone_list_unref(struct tombstone_list *list);
void tombstone_list_unrefp(struct tombstone_list **list);

/** The tombstones about rows of @minute that were committed with @sequence, one bit each. */
uint64_t tombstone_list_covering(const struct tombstone_list *list, uint32_t minute,
				 uint64_t sequence);
/** Is @series deleted by one of the tombstones @covering? */
bool tombstone_list_has(const struct tombstone_list *list, uint64_t covering, uint32_t series);
