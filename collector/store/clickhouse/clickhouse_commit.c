// SPDX-License-Identifier: Apache-2.0
// Inserts batches of many agents at once: ClickHouse makes a part of each insert, and merges parts for as long as they are
// small. What waits while one insert runs is the next one. Definitions come first and the batches table last, so that
// whatever is there refers to what is there. A batch's samples lie in one partition of one table: its rows are in one
// part, which is there or is not, whatever kills the server.
#include "collector/store/clickhouse/clickhouse_store.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "collector/store/clickhouse/clickhouse_sql.h"

enum { SQL_BYTES_MAX = 128 };

static int insert_table(struct clickhouse_store *store, uint32_t shard, enum clickhouse_table table,
			const struct clickhouse_commit *commits, uint32_t count, struct error *err)
{
	struct buffer together = { 0 };
	const struct buffer *rows = &together;
	char sql[SQL_BYTES_MAX];

	if (count == 1)
		rows = &commits->rows[table];
	else for (; count; commits = commits->next, count--)
		buffer_append(&together, commits->rows[table].bytes, commits->rows[table].size);
	snprintf(sql, sizeof(sql), SQL_INSERT, clickhouse_table_name(table));
	const struct clickhouse_request request = { .sql = sql, .rows = rows };
	int rc = rows->rc ? error_set(err, -ENOMEM, "store: out of memory") : 0;

	if (!rc && rows->size)
		rc = clickhouse_ask(&store->client, shard, &request, err);
	buffer_deinit(&together);
	return rc;
}

static int insert(struct clickhouse_store *store, uint32_t shard,
		  const struct clickhouse_commit *commits, uint32_t count, struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < CLICKHOUSE_TABLES && !rc; i++)
		rc = insert_table(store, shard, i, commits, count, err);
	return rc;
}

static void note_outcome(struct clickhouse_store *store, int rc, const struct error *err)
{
	pthread_mutex_lock(&store->found_lock);
	store->failure = rc ? *err : (struct error){ 0 };
	pthread_mutex_unlock(&store->found_lock);
}

/** If they are refused together, then one by one: what a server does not take of one is no other's fault. */
static void insert_group(struct clickhouse_store *store, uint32_t shard,
			 struct clickhouse_commit *commits, uint32_t count)
{
	struct error err = { 0 };
	int rc = insert(store, shard, commits, count, &err);
	bool one_by_one = rc == -EREMOTEIO && count > 1;

	note_outcome(store, rc, &err);
	for (struct clickhouse_commit *commit = commits; count; commit = commit->next, count--) {
		commit->rc = rc;
		commit->err = err;
		if (one_by_one)
			commit->rc = insert(store, shard, commit, 1, &commit->err);
	}
}

/** Take those that wait, in their order. The lock is held. */
static struct clickhouse_commit *take_group(struct clickhouse_shard *shard, uint32_t *ret_count)
{
	struct clickhouse_commit *first = shard->first, *end = first;
	size_t size = 0;
	uint32_t count = 0;

	// Half of what a buffer holds.
	while (end && count < CLICKHOUSE_GROUP_BATCHES_MAX &&
	       (!count || size + end->rows[CLICKHOUSE_SAMPLES].size < BUFFER_SIZE_MAX / 8)) {
		size += end->rows[CLICKHOUSE_SAMPLES].size;
		end = end->next;
		count++;
	}
	shard->first = end;
	if (!end)
		shard->last = &shard->first;
	*ret_count = count;
	return first;
}

/** Not before the interval after the last insert has passed. */
static void wait_interval(const struct clickhouse_store *store,
			  const struct clickhouse_shard *shard)
{
	uint64_t passed_ns = ns_between(shard->inserted_ns, clock_monotonic_ns());
	uint64_t interval_ns = store->insert_interval_ms * NS_PER_MS;

	if (shard->inserted_ns && passed_ns < interval_ns)
		usleep((useconds_t)((interval_ns - passed_ns) / 1000));
}

static void insert_waiting(struct clickhouse_store *store, uint32_t number,
			   struct clickhouse_shard *shard)
{
	uint32_t count;

	shard->is_inserting = true;
	pthread_mutex_unlock(&shard->lock);
	wait_interval(store, shard);
	pthread_mutex_lock(&shard->lock);
	shard->inserted_ns = clock_monotonic_ns();
	struct clickhouse_commit *group = take_group(shard, &count);
	pthread_mutex_unlock(&shard->lock);
	insert_group(store, number, group, count);
	pthread_mutex_lock(&shard->lock);
	while (count--) {
		struct clickhouse_commit *next = group->next;

		group->is_done = true; // its owner may return now
		group = next;
	}
	shard->is_inserting = false;
	pthread_cond_broadcast(&shard->done);
}

int clickhouse_commit(struct clickhouse_store *store, uint32_t number,
		      struct clickhouse_commit *commit, struct error *err)
{
	struct clickhouse_shard *shard = &store->shards[number];

	pthread_mutex_lock(&shard->lock);
	*shard->last = commit;
	shard->last = &commit->next;
	while (!commit->is_done) {
		if (shard->is_inserting)
			pthread_cond_wait(&shard->done, &shard->lock);
		else
			insert_waiting(store, number, shard);
	}
	pthread_mutex_unlock(&shard->lock);
	return commit->rc ? error_set(err, commit->rc, "%s", commit->err.text) : 0;
}
