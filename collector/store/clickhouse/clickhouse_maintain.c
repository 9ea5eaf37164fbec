// SPDX-License-Identifier: Apache-2.0
// Looks after the servers: prepares those that were away, drops old days, reads what they hold, deletes series. Any number
// of collectors do so at the same time; each step may be repeated.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "collector/store/clickhouse/clickhouse_row.h"
#include "collector/store/clickhouse/clickhouse_sql.h"
#include "collector/store/clickhouse/clickhouse_store.h"

enum {
	DAYS_MAX = 8192, // --retention is at most 3660 days
	SQL_BYTES_MAX = 1024,
	AGENT_DAYS =
		8, // batches are acknowledged for so long at least: agents keep theirs for less
	DELETE_SERIES_MAX = 2000, // in one statement
	DELETE_POLL_MS = 50,
	DELETE_WAIT_S = 60, // without a deadline
	NAME_BYTES = 32,
};

#define CLOCK_DIFFERENCE_NS_MAX (3600 * NS_PER_SECOND)

// ---- what there is --------------------------------------------------------------------------------

struct day {
	uint64_t day, bytes;
};

struct days {
	struct day *days;
	uint32_t count;
};

static int read_day(void *context, struct reader *reader)
{
	struct days *days = context;
	struct day day;

	day.day = row_u64(reader);
	day.bytes = row_u64(reader);
	if (reader->failed)
		return 0;
	if (days->count == DAYS_MAX)
		return -EBADMSG;
	days->days[days->count++] = day;
	return 0;
}

static int read_size(void *context, struct reader *reader)
{
	struct store_stats *stats = context;
	struct row_string table = row_string(reader);
	uint64_t parts = row_u64(reader), rows = row_u64(reader), bytes = row_u64(reader);
	char name[NAME_BYTES] = "";

	(void)parts;
	if (reader->failed || table.size >= sizeof(name))
		return 0;
	memcpy(name, table.at, table.size);
	stats->stored_bytes += bytes;
	if (strcmp(name, "series") == 0)
		stats->series += rows;
	if (strcmp(name, "stacks") == 0)
		stats->nodes += rows;
	if (strcmp(name, "samples") == 0)
		stats->chunk_rows += rows;
	return 0;
}

static int ask(struct clickhouse_store *store, uint32_t shard, const char *sql,
	       int (*row)(void *context, struct reader *reader), void *context, struct error *err)
{
	const struct clickhouse_request request = {
		.sql = sql, .row = row, .context = context, .answer_bytes_max = 1 << 20
	};

	return clickhouse_ask(&store->client, shard, &request, err);
}

static int list_days(struct clickhouse_store *store, uint32_t shard, struct days *days,
		     struct error *err)
{
	char sql[SQL_BYTES_MAX];

	days->count = 0;
	if (!days->days)
		days->days = calloc(DAYS_MAX, sizeof(*days->days));
	if (!days->days)
		return error_set(err, -ENOMEM, "store: out of memory");
	snprintf(sql, sizeof(sql), SQL_DAYS, store->client.database);
	return ask(store, shard, sql, read_day, days, err);
}

static void note_days(const struct days *days, struct store_stats *stats)
{
	uint64_t oldest_ns = days->count ? days->days[0].day * DAY_NS : 0;
	uint64_t newest_ns = days->count ? (days->days[days->count - 1].day + 1) * DAY_NS - 1 : 0;

	if (days->count && (!stats->oldest_ns || oldest_ns < stats->oldest_ns))
		stats->oldest_ns = oldest_ns;
	if (newest_ns > stats->newest_ns)
		stats->newest_ns = newest_ns;
	if (days->count > stats->partitions)
		stats->partitions = days->count;
}

int clickhouse_look(struct clickhouse_store *store, struct error *err)
{
	_cleanup_free_ struct day *allocated = calloc(DAYS_MAX, sizeof(*allocated));
	struct days days = { .days = allocated };
	struct store_stats found = { 0 };
	char sql[SQL_BYTES_MAX];
	int rc = allocated ? 0 : error_set(err, -ENOMEM, "store: out of memory");

	snprintf(sql, sizeof(sql), SQL_SIZES, store->client.database);
	for (uint32_t i = 0; i < store->client.shard_count && !rc; i++) {
		rc = ask(store, i, sql, read_size, &found, err);
		if (!rc)
			rc = list_days(store, i, &days, err);
		if (!rc)
			note_days(&days, &found);
	}
	if (rc)
		return rc;
	uint64_t now_ns = clickhouse_now_ns(store);
	if (found.newest_ns > now_ns) // the day is not over
		found.newest_ns = now_ns;
	pthread_mutex_lock(&store->found_lock);
	store->found = found;
	store->failure = (struct error){ 0 }; // the servers answer
	pthread_mutex_unlock(&store->found_lock);
	return 0;
}

// ---- old days -------------------------------------------------------------------------------------

static int read_number(void *context, struct reader *reader)
{
	uint64_t value = row_u64(reader);

	if (!reader->failed)
		*(uint64_t *)context = value;
	return 0;
}

/** The earlier of the collector's and the server's clock; 0 if they differ too much to delete by either. */
static int ask_time(struct clickhouse_store *store, uint32_t shard, uint64_t now_ns,
		    uint64_t *ret_now_ns, struct error *err)
{
	uint64_t seconds = 0;
	int rc = ask(store, shard, SQL_NOW, read_number, &seconds, err);

	if (rc)
		return rc;
	uint64_t server_ns = seconds > UINT32_MAX ? 0 : seconds * NS_PER_SECOND;
	uint64_t earlier_ns = server_ns < now_ns ? server_ns : now_ns;
	uint64_t later_ns = server_ns < now_ns ? now_ns : server_ns;
	bool differs = later_ns - earlier_ns > CLOCK_DIFFERENCE_NS_MAX;

	pthread_mutex_lock(&store->found_lock);
	if (differs)
		snprintf(store->clock_text, sizeof(store->clock_text),
			 "it is %llu s from ClickHouse's (shard %u)",
			 (unsigned long long)((later_ns - earlier_ns) / NS_PER_SECOND), shard + 1);
	else
		store->clock_text[0] = '\0';
	pthread_mutex_unlock(&store->found_lock);
	*ret_now_ns = differs ? 0 : earlier_ns;
	return 0;
}

static int drop_day(struct clickhouse_store *store, uint32_t shard, enum clickhouse_table table,
		    uint64_t day, struct error *err)
{
	time_t seconds = (time_t)(day * DAY_NS / NS_PER_SECOND);
	char sql[SQL_BYTES_MAX], text[NAME_BYTES];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d", &tm);
	snprintf(sql, sizeof(sql), SQL_DROP_DAY, clickhouse_table_name(table), text);
	const struct clickhouse_request request = { .sql = sql };
	return clickhouse_ask(&store->client, shard, &request, err);
}

/** Drop what belongs to the samples of @day; what acknowledges batches lives longer. */
static int drop_samples(struct clickhouse_store *store, uint32_t shard, uint64_t day,
			struct error *err)
{
	// Samples first: whatever is there has its definitions.
	static const enum clickhouse_table tables[] = { CLICKHOUSE_SAMPLES, CLICKHOUSE_SERIES,
							CLICKHOUSE_STACKS, CLICKHOUSE_LOCATIONS };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && !rc; i++)
		rc = drop_day(store, shard, tables[i], day, err);
	store->counters.days_dropped += !rc;
	return rc;
}

/** A day's last samples come in the next: batches reach so far. */
static bool is_past(uint64_t day, uint64_t now_ns, uint64_t age_ns)
{
	return (day + 1) * DAY_NS + CLICKHOUSE_BATCH_NS_MAX + age_ns <= now_ns;
}

static int drop_old_days(struct clickhouse_store *store, uint32_t shard, struct days *days,
			 uint64_t now_ns, struct error *err)
{
	uint64_t agents_ns = AGENT_DAYS * DAY_NS;
	int rc = 0;

	if (store->retention_ns > agents_ns)
		agents_ns = store->retention_ns;
	for (uint32_t i = 0; i < days->count && !rc && store->retention_ns; i++) {
		if (is_past(days->days[i].day, now_ns, store->retention_ns))
			rc = drop_samples(store, shard, days->days[i].day, err);
		if (!rc && is_past(days->days[i].day, now_ns, agents_ns))
			rc = drop_day(store, shard, CLICKHOUSE_BATCHES, days->days[i].day, err);
	}
	return rc;
}

/** Drop the oldest days until the rest fits; never the last. */
static int drop_excess(struct clickhouse_store *store, uint32_t shard, const struct days *days,
		       struct error *err)
{
	uint64_t bytes = 0, limit = store->size_bytes_max / store->client.shard_count;
	int rc = 0;

	for (uint32_t i = 0; i < days->count; i++)
		bytes += days->days[i].bytes;
	for (uint32_t i = 0; i + 1 < days->count && !rc && limit && bytes > limit; i++) {
		log_warn("store: deleting the oldest day of shard %u: ClickHouse holds %llu MiB "
			 "there, above its share of --retention-size (%llu MiB); raise it to keep "
			 "more",
			 shard + 1, (unsigned long long)bytes >> 20,
			 (unsigned long long)limit >> 20);
		rc = drop_samples(store, shard, days->days[i].day, err);
		bytes -= days->days[i].bytes;
	}
	return rc;
}

static int retain(struct clickhouse_store *store, uint32_t shard, uint64_t now_ns,
		  struct error *err)
{
	_cleanup_free_ struct day *allocated = calloc(DAYS_MAX, sizeof(*allocated));
	struct days days = { .days = allocated };
	uint64_t trusted_ns = 0;
	int rc = allocated ? ask_time(store, shard, now_ns, &trusted_ns, err)
			   : error_set(err, -ENOMEM, "store: out of memory");

	if (rc || !trusted_ns)
		return rc;
	rc = list_days(store, shard, &days, err);
	if (!rc)
		rc = drop_old_days(store, shard, &days, trusted_ns, err);
	if (!rc)
		rc = list_days(store, shard, &days, err);
	return rc ? rc : drop_excess(store, shard, &days, err);
}

/** Its sequence is in the servers. */
static void ignore_removed(void *context, const struct agent_entry *entry)
{
	(void)context, (void)entry;
}

int clickhouse_maintain(struct clickhouse_store *store, uint64_t now_ns, struct error *err)
{
	struct clickhouse_client *client = &store->client;
	uint64_t monotonic_ns = clock_monotonic_ns();
	int rc = 0;

	if (store->maintained_ns &&
	    ns_between(store->maintained_ns, monotonic_ns) < CLICKHOUSE_MAINTAIN_S * NS_PER_SECOND)
		return 0;
	store->maintained_ns = monotonic_ns;
	for (uint32_t i = 0; i < client->server_count; i++) {
		struct error cause = { 0 };

		if (!client->servers[i].is_ready &&
		    clickhouse_schema_prepare(client, &client->servers[i], &cause))
			log_warn("store: %s", cause.text);
	}
	pthread_mutex_lock(&store->agents_lock);
	agent_table_expire(&store->agents, ns_before(now_ns, AGENT_DAYS * DAY_NS), NULL,
			   ignore_removed);
	pthread_mutex_unlock(&store->agents_lock);
	for (uint32_t i = 0; i < client->shard_count && !rc; i++)
		rc = retain(store, i, now_ns, err);
	return rc ? rc : clickhouse_look(store, err);
}

// ---- deletion -------------------------------------------------------------------------------------

static void put_series(struct buffer *sql, const struct id128 *ids, uint32_t count)
{
	uint8_t bytes[ID128_BYTES];

	for (uint32_t i = 0; i < count; i++) {
		id128_encode(ids[i], bytes);
		buffer_append_string(sql, i ? ", toFixedString(unhex('" : "toFixedString(unhex('");
		for (uint32_t j = 0; j < ID128_BYTES; j++)
			buffer_printf(sql, "%02x", bytes[j]);
		buffer_append_string(sql, "'), 16)");
	}
}

static int delete_series(struct clickhouse_store *store, uint32_t shard, struct time_range range,
			 const struct id128 *ids, uint32_t count, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer series = { 0 }, sql = { 0 };
	char condition[CLICKHOUSE_CONDITION_BYTES];

	// Rows never reach over a minute's end, and the range has whole minutes: a row is in it or not.
	if (!clickhouse_range_condition(range, true, condition))
		return 0;
	put_series(&series, ids, count);
	buffer_printf(&sql, SQL_DELETE, condition, buffer_string(&series));
	if (series.rc || sql.rc)
		return error_set(err, -ENOMEM, "store: out of memory");
	const struct clickhouse_request request = { .sql = buffer_string(&sql) };
	return clickhouse_ask(&store->client, shard, &request, err);
}

/** Until then, what is deleted is still shown. */
static int wait_for_deletion(struct clickhouse_store *store, uint32_t shard,
			     struct deadline *deadline, struct error *err)
{
	uint64_t begin_ns = clock_monotonic_ns(), left = 1;
	char sql[SQL_BYTES_MAX];
	int rc = 0;

	snprintf(sql, sizeof(sql), SQL_MUTATIONS_LEFT, store->client.database);
	while (!rc) {
		rc = ask(store, shard, sql, read_number, &left, err);
		if (rc || !left)
			break;
		rc = deadline_check(deadline, err);
		if (!rc &&
		    ns_between(begin_ns, clock_monotonic_ns()) > DELETE_WAIT_S * NS_PER_SECOND)
			rc = error_set(err, -ETIMEDOUT,
				       "delete: ClickHouse has begun, and is not done after %d s; "
				       "repeat the request to wait on",
				       DELETE_WAIT_S);
		if (!rc)
			usleep(DELETE_POLL_MS * 1000);
	}
	return rc;
}

int clickhouse_delete(struct store *base, const struct selector *selector, struct time_range range,
		      struct store_deletion *ret_deletion, struct error *err)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	struct store_selection *result = NULL;
	int rc = clickhouse_select(base, selector, NULL, range, &result, err);

	if (rc)
		return rc;
	const struct clickhouse_selection *selection = result->private_;
	struct store_deletion deletion = { .series = result->series_count };
	for (uint32_t i = 0; i < store->client.shard_count && !rc; i++) {
		uint32_t count = selection->shards[i].count;

		for (uint32_t j = 0; j < count && !rc; j += DELETE_SERIES_MAX)
			rc = delete_series(
				store, i, range, selection->shards[i].ids + j,
				count - j < DELETE_SERIES_MAX ? count - j : DELETE_SERIES_MAX, err);
		// Also those of a request before, which was not waited for.
		if (!rc)
			rc = wait_for_deletion(store, i, selector->deadline, err);
		deletion.partitions += count > 0;
	}
	clickhouse_selection_free(result);
	if (rc)
		return rc;
	store->counters.series_deleted += deletion.series;
	*ret_deletion = deletion;
	return 0;
}
