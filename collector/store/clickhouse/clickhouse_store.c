// SPDX-License-Identifier: Apache-2.0
// Opening and closing, and what the store says of itself.
#include "collector/store/clickhouse/clickhouse_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	MEMORY_BYTES_DEFAULT = 512 << 20,
	KNOWN_ID_BYTES = 64, // with its part of the index
	KNOWN_IDS_MIN = 1024,
	KNOWN_IDS_MAX = 4 << 20,
	MEMORY_FOR_KNOWN_DIVISOR = 4, // the rest is for definitions
};

uint64_t clickhouse_now_ns(const struct clickhouse_store *store)
{
	return store->clock ? store->clock->realtime_ns() : clock_realtime_ns();
}

struct definitions *clickhouse_definitions(struct clickhouse_store *store)
{
	struct definitions *fresh = NULL;
	uint64_t limit = store->memory_bytes - store->memory_bytes / MEMORY_FOR_KNOWN_DIVISOR;

	pthread_mutex_lock(&store->definitions_lock);
	if (definitions_bytes(store->definitions) > limit ||
	    ns_between(store->definitions->made_ns, clock_monotonic_ns()) >
		    DEFINITIONS_AGE_S * NS_PER_SECOND)
		fresh = definitions_new(); // without memory, the old ones go on
	if (fresh) {
		definitions_unref(store->definitions);
		store->definitions = fresh;
	}
	struct definitions *definitions = definitions_ref(store->definitions);
	pthread_mutex_unlock(&store->definitions_lock);
	return definitions;
}

int clickhouse_check_shards(struct clickhouse_store *store, struct error *err)
{
	return store->client.shard_count
		       ? 0
		       : error_set(err, -EIO,
				   "ClickHouse: no server of cluster %s has answered yet",
				   store->cluster);
}

// ---- opening --------------------------------------------------------------------------------------

static void close_store(struct store *base)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;

	for (uint32_t i = 0; i < CLICKHOUSE_SERVERS_MAX; i++) {
		known_ids_deinit(&store->shards[i].stacks);
		known_ids_deinit(&store->shards[i].locations);
		known_ids_deinit(&store->shards[i].series);
	}
	clickhouse_client_close(&store->client);
	agent_table_deinit(&store->agents);
	definitions_unref(store->definitions);
	free(store->cluster);
	free(store);
}

static void store_freep(struct clickhouse_store **store)
{
	if (*store)
		close_store(&(*store)->base);
}

/** Those of a cluster may be away for a while; a shard of its own may not. */
static int prepare_servers(struct clickhouse_store *store, struct error *err)
{
	struct clickhouse_client *client = &store->client;
	struct error cause = { 0 };
	uint32_t ready = 0;

	for (uint32_t i = 0; i < client->server_count; i++) {
		int rc = clickhouse_schema_prepare(client, &client->servers[i], &cause);

		ready += !rc;
		if (rc && (!client->cluster || (rc != -EAGAIN && rc != -EIO)))
			return error_set(err, rc == -EAGAIN || rc == -EREMOTEIO ? -EIO : rc, "%s",
					 cause.text);
		if (rc)
			log_warn("store: %s; the other servers of cluster %s are used", cause.text,
				 client->cluster);
	}
	return ready ? 0 : error_set(err, -EIO, "%s", cause.text);
}

static void init_shards(struct clickhouse_store *store)
{
	// At most as many as there are servers.
	uint64_t ids = store->memory_bytes / MEMORY_FOR_KNOWN_DIVISOR / KNOWN_ID_BYTES / 3 /
		       store->client.server_count;
	uint32_t count_max = ids < KNOWN_IDS_MIN   ? KNOWN_IDS_MIN
			     : ids > KNOWN_IDS_MAX ? KNOWN_IDS_MAX
						   : (uint32_t)ids;

	for (uint32_t i = 0; i < CLICKHOUSE_SERVERS_MAX; i++) {
		struct clickhouse_shard *shard = &store->shards[i];

		pthread_mutex_init(&shard->lock, NULL);
		pthread_mutex_init(&shard->known_lock, NULL);
		pthread_cond_init(&shard->done, NULL);
		shard->last = &shard->first;
		shard->stacks.count_max = count_max;
		shard->locations.count_max = count_max;
		shard->series.count_max = count_max;
	}
}

// ---- what it says of itself -----------------------------------------------------------------------

static uint64_t known_bytes(struct clickhouse_store *store)
{
	uint64_t ids = 0;

	for (uint32_t i = 0; i < store->client.shard_count; i++) {
		struct clickhouse_shard *shard = &store->shards[i];

		pthread_mutex_lock(&shard->known_lock);
		ids += shard->stacks.capacity + shard->locations.capacity + shard->series.capacity;
		pthread_mutex_unlock(&shard->known_lock);
	}
	return ids * KNOWN_ID_BYTES;
}

static void read_stats(struct store *base, struct store_stats *ret_stats)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	const struct clickhouse_counters *counters = &store->counters;
	struct definitions *definitions = clickhouse_definitions(store);

	pthread_mutex_lock(&store->found_lock);
	*ret_stats = store->found;
	ret_stats->clock_doubted = *store->clock_text != '\0';
	pthread_mutex_unlock(&store->found_lock);
	pthread_mutex_lock(&store->agents_lock);
	ret_stats->agents = store->agents.count - store->agents.pushes;
	ret_stats->pushes = store->agents.pushes;
	ret_stats->agents_evicted = store->agents.evicted;
	ret_stats->pushes_evicted = store->agents.evicted_pushes;
	pthread_mutex_unlock(&store->agents_lock);
	ret_stats->rows_appended = counters->rows;
	ret_stats->batches_appended = counters->batches;
	ret_stats->batches_duplicate = counters->duplicates;
	ret_stats->rows_late_dropped = counters->late;
	ret_stats->rows_future_dropped = counters->future;
	ret_stats->batches_refused = counters->refused;
	ret_stats->partitions_dropped = counters->days_dropped;
	ret_stats->series_deleted = counters->series_deleted;
	ret_stats->write_failures = store->client.failures;
	ret_stats->memory_bytes = known_bytes(store) + definitions_bytes(definitions);
	definitions_unref(definitions);
}

/** ClickHouse checks its parts itself, and says so in its log. */
static void read_damage(struct store *store, struct time_range range,
			struct store_damage *ret_damage)
{
	(void)store, (void)range;
	*ret_damage = (struct store_damage){ 0 };
}

/** Rows stay as they came. */
static uint64_t resolution(struct store *store, struct time_range range)
{
	(void)store, (void)range;
	return 0;
}

static void read_health(struct store *base, struct store_health *ret_health)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;

	*ret_health = (struct store_health){ 0 };
	pthread_mutex_lock(&store->found_lock);
	ret_health->takes_batches = store->failure.code == 0;
	snprintf(ret_health->text, sizeof(ret_health->text), "%s", store->failure.text);
	snprintf(ret_health->clock, sizeof(ret_health->clock), "%s", store->clock_text);
	pthread_mutex_unlock(&store->found_lock);
}

// ---- functions of the interface -------------------------------------------------------------------

static int append(struct store *store, const struct store_batch_id *batch,
		  const struct profile *profile, struct store_append_result *ret_result,
		  struct error *err)
{
	return clickhouse_append((struct clickhouse_store *)store, batch, profile, ret_result, err);
}

static int maintain(struct store *store, uint64_t now_ns, struct error *err)
{
	return clickhouse_maintain((struct clickhouse_store *)store, now_ns, err);
}

/** Nothing waits in memory: what was acknowledged is in the servers. */
static int flush(struct store *store, struct error *err)
{
	return clickhouse_look((struct clickhouse_store *)store, err);
}

static int backup(struct store *store, const char *folder, struct error *err)
{
	(void)store, (void)folder;
	return error_set(err, -EOPNOTSUPP,
			 "backup: the profiles are in ClickHouse; back up its database by its own "
			 "means (docs/clickhouse.md)");
}

static const struct store_ops clickhouse_ops = {
	.close = close_store,
	.append = append,
	.select = clickhouse_select,
	.selection_free = clickhouse_selection_free,
	.scan = clickhouse_scan,
	.activity = clickhouse_activity,
	.label_names = clickhouse_label_names,
	.label_values = clickhouse_label_values,
	.delete_series = clickhouse_delete,
	.maintain = maintain,
	.flush = flush,
	.backup = backup,
	.read_stats = read_stats,
	.read_damage = read_damage,
	.resolution = resolution,
	.read_health = read_health,
};

int clickhouse_store_open(const struct store_options *options,
			  const struct clickhouse_options *clickhouse, struct store **ret_store,
			  struct error *err)
{
	_cleanup_(store_freep) struct clickhouse_store *store = calloc(1, sizeof(*store));
	struct clickhouse_options own = *clickhouse;

	if (!store || !(store->definitions = definitions_new()) ||
	    (clickhouse->cluster && !(store->cluster = strdup(clickhouse->cluster))))
		return error_set(err, -ENOMEM, "store: out of memory");
	own.cluster = store->cluster;
	store->base.ops = &clickhouse_ops;
	store->insert_interval_ms = clickhouse->insert_interval_ms;
	store->retention_ns = options->retention_ns;
	store->size_bytes_max = options->size_bytes_max;
	store->memory_bytes = options->memory_bytes ? options->memory_bytes : MEMORY_BYTES_DEFAULT;
	store->clock = options->clock;
	pthread_mutex_init(&store->agents_lock, NULL);
	pthread_mutex_init(&store->definitions_lock, NULL);
	pthread_mutex_init(&store->found_lock, NULL);
	int rc = clickhouse_client_open(&store->client, &own, err);
	if (!rc)
		rc = prepare_servers(store, err);
	if (!rc) {
		init_shards(store);
		rc = clickhouse_look(store, err);
	}
	if (!rc)
		*ret_store = &take(store)->base;
	return rc;
}
