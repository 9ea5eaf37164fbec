// SPDX-License-Identifier: Apache-2.0
// Quotas of a partition's series, by process, service, node and tenant. Above one, a new series is not
// added: its rows go to a series of the excess, which lacks the labels that made it and has label
// `other` instead. So sums stay right, and nobody can take the room of all others. One thread at a time.
#pragma once

#include <stdint.h>

#include "base/hash_table.h"
#include "base/id128.h"
#include "base/labels.h"
#include "collector/limits/tenant_limit.h"
#include "collector/store/rocksdb/record_limits.h"

enum {
	// The threads of a process by every profile type: a JVM has some hundred.
	SERIES_PER_PROCESS_MAX = 2 << 10,
	// A service on a thousand hosts has some ten series on each.
	SERIES_PER_SERVICE_MAX = 64 << 10,
	// A host has a few hundred series; its processes choose names of services.
	SERIES_PER_NODE_MAX = 16 << 10,
	SERIES_PER_TENANT_MAX = TENANT_SERIES_DEFAULT, // unless the tenant has another limit
	// Room for the excess of all: a series for each tenant and type.
	SERIES_OF_EXCESS_MAX = 4 << 10,
};

_Static_assert((int)TENANT_SERIES_MAX == (int)POSTINGS_SERIES_MAX - (int)SERIES_OF_EXCESS_MAX,
	       "a tenant may have all but the excess");

/** From the narrowest to the widest. A series of the excess of one counts for the wider ones. */
enum series_level {
	SERIES_PROCESS,
	SERIES_SERVICE,
	SERIES_NODE,
	SERIES_TENANT,
	SERIES_COLLECTOR,
	SERIES_LEVELS, // none
};

/** The series of one process, service, node or tenant. */
struct series_count {
	struct id128 key;
	uint32_t series;
};

/** A zeroed struct is empty. */
struct partition_quota {
	struct series_count *counts;
	uint32_t count, capacity;
	struct hash_table index;
	uint32_t series; // all
};

void partition_quota_deinit(struct partition_quota *quota);
uint64_t partition_quota_memory(const struct partition_quota *quota);

/**
 * The narrowest level that is full for a series with @pairs; SERIES_LEVELS if none is. Its tenant may have @tenant_series_max; 0: the
 * default, which holds for none but those that have a name.
 */
enum series_level partition_quota_check(const struct partition_quota *quota,
					const struct label *pairs, uint32_t count,
					uint32_t tenant_series_max);
/** Count a series. Returns 0; -ENOMEM, and nothing is counted. */
int partition_quota_add(struct partition_quota *quota, const struct label *pairs, uint32_t count);

/** The labels of the series into which the excess of @labels at @level goes. 0 or -ENOMEM. */
int series_of_excess(enum series_level level, const struct labels *labels,
		     struct labels *ret_labels);
