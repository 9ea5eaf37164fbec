// SPDX-License-Identifier: Apache-2.0
// Definitions of stacks, locations and series that were read from the servers: kept for the queries to come, within a
// limit. When it is reached or after DEFINITIONS_AGE_S, later queries begin with an empty one (a name may have come
// through another collector); those that run keep theirs.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/profile/profile.h"
#include "collector/store/clickhouse/clickhouse_client.h"

enum {
	DEFINITIONS_AGE_S = 300,
	FETCH_IDS_MAX = 64 << 10, // in one statement
};

/** Its profile is read and written with the lock held. */
struct definitions {
	atomic_uint refs;
	pthread_mutex_t lock;
	struct profile *profile;        // stacks that are not defined are not known
	struct hash_table series_index; // by id
	uint64_t made_ns;
};

struct definitions *definitions_new(void);
struct definitions *definitions_ref(struct definitions *definitions);
void definitions_unref(struct definitions *definitions);
/** Bytes of memory, approximate. */
uint64_t definitions_bytes(struct definitions *definitions);

/** Read those of @ids from @shard that are not here. What the shard does not have stays unknown. As clickhouse_ask(). */
int definitions_fetch_stacks(struct definitions *definitions, struct clickhouse_client *client,
			     uint32_t shard, const struct id128 *ids, uint32_t count,
			     struct deadline *deadline, struct error *err);
int definitions_fetch_series(struct definitions *definitions, struct clickhouse_client *client,
			     uint32_t shard, const struct id128 *ids, uint32_t count,
			     struct deadline *deadline, struct error *err);
/** The stack's position in the profile; HASH_TABLE_NONE if it is not known. The lock is held. */
uint32_t definitions_find_stack(const struct definitions *definitions, struct id128 id);
uint32_t definitions_find_series(const struct definitions *definitions, struct id128 id);
/** Take what @location of @profile says of its lines, if it is here. */
void definitions_learn(struct definitions *definitions, const struct profile *profile,
		       const struct location *location);
/** Add a location of another profile. Returns 0, or as profile_add_location(). */
int definitions_copy_location(struct profile *into, const struct profile *from,
			      const struct location *location, uint32_t *ret_location);
