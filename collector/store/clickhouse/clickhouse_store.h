// SPDX-License-Identifier: Apache-2.0
// The store: what its functions share.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "collector/store/agent_table.h"
#include "collector/store/clickhouse/clickhouse_client.h"
#include "collector/store/clickhouse/clickhouse_definitions.h"
#include "collector/store/clickhouse/clickhouse_known.h"
#include "collector/store/clickhouse/clickhouse_schema.h"
#include "collector/store/rows.h"
#include "collector/store/store_ops.h"

#define CLICKHOUSE_FUTURE_NS_MAX (3600ULL * 1000000000ULL)     // a clock further ahead is wrong
#define CLICKHOUSE_BATCH_NS_MAX  (8 * 3600ULL * 1000000000ULL) // of time that a batch's slots lie in
#define DAY_NS                   (24 * 3600ULL * 1000000000ULL)

enum {
	CLICKHOUSE_GROUP_BATCHES_MAX = 256, // that one insert has
	CLICKHOUSE_MAINTAIN_S = 30,         // between looks at what the servers have
};

/** A batch as rows, by table, on its way into its shard. */
struct clickhouse_commit {
	struct buffer rows[CLICKHOUSE_TABLES];
	struct clickhouse_commit *next;
	bool is_done;
	int rc;
	struct error err;
};

/** Batches of a shard are inserted together: who comes first inserts for all that wait. */
struct clickhouse_shard {
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct clickhouse_commit *first, **last; // that wait
	bool is_inserting;
	uint64_t inserted_ns; // clock_monotonic_ns() when the last insert began
	pthread_mutex_t known_lock;
	struct known_ids stacks, locations, series;
};

struct clickhouse_counters {
	_Atomic uint64_t rows, batches, duplicates, late, future, refused, days_dropped,
		series_deleted, rows_deleted;
};

struct clickhouse_store {
	struct store base;
	struct clickhouse_client client;
	char *cluster; // the client's
	struct clickhouse_shard shards[CLICKHOUSE_SERVERS_MAX];
	uint32_t insert_interval_ms;
	uint64_t retention_ns, size_bytes_max, memory_bytes;
	const struct store_clock *clock; // NULL: the system's
	pthread_mutex_t agents_lock;
	struct agent_table agents;
	pthread_mutex_t definitions_lock;
	struct definitions *definitions;
	struct clickhouse_counters counters;
	// What maintenance has found.
	pthread_mutex_t found_lock;
	struct store_stats found;
	struct error failure; // of the last insert; code 0: none
	char clock_text[STORE_CLOCK_TEXT_BYTES];
	uint64_t maintained_ns; // clock_monotonic_ns(); 0: never
};

uint64_t clickhouse_now_ns(const struct clickhouse_store *store);
/** A reference to the definitions that queries share. */
struct definitions *clickhouse_definitions(struct clickhouse_store *store);

/** Insert and wait. Returns 0 when it is durable; what clickhouse_ask() returns. */
int clickhouse_commit(struct clickhouse_store *store, uint32_t shard,
		      struct clickhouse_commit *commit, struct error *err);

int clickhouse_append(struct clickhouse_store *store, const struct store_batch_id *batch,
		      const struct profile *profile, struct store_append_result *ret_result,
		      struct error *err);

/** A condition on samples: rows with a slot in @range. */
enum { CLICKHOUSE_CONDITION_BYTES = 512 };
/** @is_whole: all of the row's slots begin in it. False if nothing can. */
bool clickhouse_range_condition(struct time_range range, bool is_whole,
				char ret_text[CLICKHOUSE_CONDITION_BYTES]);
/** Unknown shards cannot be asked, and an answer without them would be wrong. */
int clickhouse_check_shards(struct clickhouse_store *store, struct error *err);

/** store_selection.private_: whose series are where. */
struct clickhouse_selection {
	struct store_selection_private base;
	struct store_selection result;
	struct id128 *ids; // by number of the series
	struct hash_table index;
	char *services; // condition on the service, or ""
	struct {
		struct id128 *ids;
		uint32_t count;
	} shards[CLICKHOUSE_SERVERS_MAX];
};

int clickhouse_select(struct store *store, const struct selector *selector, const char *type,
		      struct time_range range, struct store_selection **ret_selection,
		      struct error *err);
void clickhouse_selection_free(struct store_selection *selection);
/** The number of a selected series, or HASH_TABLE_NONE. */
uint32_t clickhouse_selection_find(const struct clickhouse_selection *selection, struct id128 id);
int clickhouse_label_names(struct store *store, const struct selector *selector,
			   struct time_range range, struct name_list *ret_list, struct error *err);
int clickhouse_label_values(struct store *store, const char *name, const struct selector *selector,
			    struct time_range range, struct name_list *ret_list, struct error *err);

int clickhouse_scan(struct store *store, const struct store_selection *selection,
		    const struct time_range *ranges, uint32_t range_count,
		    const struct store_scanner *scanner, struct error *err);
int clickhouse_activity(struct store *store, const struct store_selection *selection,
			struct time_range range, uint64_t slot_ns, const uint32_t *rows,
			int64_t *counts, struct error *err);

int clickhouse_maintain(struct clickhouse_store *store, uint64_t now_ns, struct error *err);
/** Look at what the servers have, now. */
int clickhouse_look(struct clickhouse_store *store, struct error *err);
int clickhouse_delete(struct store *store, const struct selector *selector, struct time_range range,
		      struct store_deletion *ret_deletion, struct error *err);
