// SPDX-License-Identifier: Apache-2.0
#include "collector/store/clickhouse/clickhouse_schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/version.h"
#include "collector/store/clickhouse/clickhouse_row.h"
#include "collector/store/clickhouse/clickhouse_sql.h"

enum { SQL_BYTES_MAX = 2048 };

static const struct {
	const char *name, *columns, *order;
	const char *version; // of ReplacingMergeTree: the row of the largest stays; "": any
	const char *settings;
} tables[CLICKHOUSE_TABLES] = {
	[CLICKHOUSE_LOCATIONS] = { "locations", SQL_LOCATION_COLUMNS, "id", "detail", "" },
	[CLICKHOUSE_STACKS] = { "stacks", SQL_STACK_COLUMNS, "id", "", "" },
	[CLICKHOUSE_SERIES] = { "series", SQL_SERIES_COLUMNS, "id", "", "" },
	[CLICKHOUSE_SAMPLES] = { "samples", SQL_SAMPLE_COLUMNS, "(service, series, minute, batch)",
				 "", "index_granularity = 1024" },
	[CLICKHOUSE_BATCHES] = { "batches", SQL_BATCH_COLUMNS, "boot", "sequence", "" },
};

const char *clickhouse_table_name(enum clickhouse_table table)
{
	return tables[table].name;
}

// ---- questions ------------------------------------------------------------------------------------

struct numbers {
	uint64_t values[4];
	uint32_t count; // of the columns
	uint32_t rows;
};

static int read_numbers(void *context, struct reader *reader)
{
	struct numbers *numbers = context;

	for (uint32_t i = 0; i < numbers->count; i++)
		numbers->values[i] = row_u64(reader);
	numbers->rows += !reader->failed;
	return 0;
}

/** Ask for @count columns UInt64. The last row counts. */
static int ask_numbers(struct clickhouse_client *client, struct clickhouse_server *server,
		       const char *sql, struct numbers *numbers, struct error *err)
{
	const struct clickhouse_request request = { .sql = sql,
						    .row = read_numbers,
						    .context = numbers,
						    .in_no_database = true,
						    .answer_bytes_max = 64 << 10 };

	return clickhouse_ask_server(client, server, &request, err);
}

static int execute(struct clickhouse_client *client, struct clickhouse_server *server,
		   const char *sql, struct error *err)
{
	const struct clickhouse_request request = { .sql = sql, .in_no_database = true };

	return clickhouse_ask_server(client, server, &request, err);
}

static int read_version(void *context, struct reader *reader)
{
	uint32_t *version = context;
	struct row_string text = row_string(reader);
	char copy[32] = "";
	unsigned int year, release;

	memcpy(copy, text.at ? text.at : "",
	       text.size < sizeof(copy) ? text.size : sizeof(copy) - 1);
	if (!reader->failed && sscanf(copy, "%u.%u", &year, &release) == 2 && year < 10000)
		*version = year * 100 + release % 100;
	return 0;
}

static int ask_version(struct clickhouse_client *client, struct clickhouse_server *server,
		       struct error *err)
{
	const struct clickhouse_request request = { .sql = SQL_VERSION,
						    .row = read_version,
						    .context = &server->version,
						    .in_no_database = true,
						    .answer_bytes_max = 1 << 10 };

	return clickhouse_ask_server(client, server, &request, err);
}

/** Which of the cluster's servers is it? */
static int find_place(struct clickhouse_client *client, struct clickhouse_server *server,
		      struct error *err)
{
	struct numbers here = { .count = 2 }, all = { .count = 2 };
	char sql[SQL_BYTES_MAX];

	if (!client->cluster)
		return 0;
	snprintf(sql, sizeof(sql), SQL_CLUSTER_PLACE, client->cluster);
	int rc = ask_numbers(client, server, sql, &here, err);
	snprintf(sql, sizeof(sql), SQL_CLUSTER_SIZE, client->cluster);
	if (!rc)
		rc = ask_numbers(client, server, sql, &all, err);
	if (rc)
		return rc;
	if (here.rows != 1 || !here.values[0] || here.values[0] > all.values[0] ||
	    all.values[0] > CLICKHOUSE_SERVERS_MAX)
		return error_set(err, -EINVAL,
				 "ClickHouse at %s is not one server of the cluster %s; see "
				 "remote_servers in its configuration and SELECT * FROM "
				 "system.clusters",
				 server->url, client->cluster);
	server->shard = (uint32_t)here.values[0] - 1;
	server->replica = all.values[1] > 1 ? (uint32_t)here.values[1] : 0;
	client->shard_count = (uint32_t)all.values[0];
	return 0;
}

/** Replicas that do not replicate would each have a part of the rows. */
static int check_keeper(struct clickhouse_client *client, struct clickhouse_server *server,
			struct error *err)
{
	struct error cause = { 0 };

	if (!server->replica)
		return 0;
	int rc = execute(client, server, SQL_KEEPER, &cause);
	if (rc != -EREMOTEIO)
		return rc ? error_set(err, rc, "%s", cause.text) : 0;
	return error_set(err, -EINVAL,
			 "the cluster %s has replicas, and ClickHouse at %s has no ZooKeeper or "
			 "Keeper: %.120s",
			 client->cluster, server->url, cause.text);
}

// ---- tables ---------------------------------------------------------------------------------------

static int create_table(struct clickhouse_client *client, struct clickhouse_server *server,
			uint32_t table, struct error *err)
{
	const char *version = tables[table].version, *settings = tables[table].settings;
	// Since 20.10 what is acknowledged can survive a power failure.
	bool syncs = server->version >= 2010;
	char engine[512], sql[SQL_BYTES_MAX];

	if (server->replica)
		snprintf(engine, sizeof(engine), SQL_REPLICATED_ENGINE, client->database,
			 server->shard + 1, tables[table].name, server->replica,
			 *version ? ", " : "", version);
	else
		snprintf(engine, sizeof(engine), SQL_ENGINE, version);
	snprintf(sql, sizeof(sql), SQL_CREATE_TABLE "%s%s%s%s", client->database,
		 tables[table].name, tables[table].columns, engine, tables[table].order,
		 *settings || syncs ? " SETTINGS " : "", settings, *settings && syncs ? ", " : "",
		 syncs ? "fsync_after_insert = 1, fsync_part_directory = 1" : "");
	return execute(client, server, sql, err);
}

/** From a database without tables to version 1. */
static int create_tables(struct clickhouse_client *client, struct clickhouse_server *server,
			 struct error *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < CLICKHOUSE_TABLES && !rc; i++)
		rc = create_table(client, server, i, err);
	return rc;
}

/** By the version that they lead from. Each may be repeated: two collectors may start at once, and one may be killed. */
static int (*const migrations[CLICKHOUSE_SCHEMA_VERSION])(struct clickhouse_client *client,
							  struct clickhouse_server *server,
							  struct error *err) = { create_tables };

static int migrate(struct clickhouse_client *client, struct clickhouse_server *server,
		   struct error *err)
{
	struct numbers version = { .count = 1 };
	char sql[SQL_BYTES_MAX];
	int rc;

	snprintf(sql, sizeof(sql), SQL_CREATE_DATABASE, client->database);
	rc = execute(client, server, sql, err);
	snprintf(sql, sizeof(sql), SQL_CREATE_VERSIONS, client->database);
	if (!rc)
		rc = execute(client, server, sql, err);
	snprintf(sql, sizeof(sql), SQL_SCHEMA_VERSION, client->database);
	if (!rc)
		rc = ask_numbers(client, server, sql, &version, err);
	if (!rc && version.values[0] > CLICKHOUSE_SCHEMA_VERSION)
		return error_set(err, -EBADMSG,
				 "ClickHouse at %s: the tables of database %s are of version %llu, "
				 "newer than this program's %d; use the cairn-collector that made "
				 "them, or another --clickhouse-database",
				 server->url, client->database,
				 (unsigned long long)version.values[0], CLICKHOUSE_SCHEMA_VERSION);
	for (uint64_t at = version.values[0]; at < CLICKHOUSE_SCHEMA_VERSION && !rc; at++) {
		rc = migrations[at](client, server, err);
		snprintf(sql, sizeof(sql), SQL_ADD_VERSION, client->database,
			 (unsigned long long)at + 1, CAIRN_VERSION);
		if (!rc)
			rc = execute(client, server, sql, err);
	}
	return rc;
}

int clickhouse_schema_prepare(struct clickhouse_client *client, struct clickhouse_server *server,
			      struct error *err)
{
	int rc = ask_version(client, server, err);

	if (!rc && !server->version)
		rc = error_set(err, -EBADMSG, "%s is not a ClickHouse server", server->url);
	if (!rc)
		rc = find_place(client, server, err);
	if (!rc)
		rc = check_keeper(client, server, err);
	if (!rc)
		rc = migrate(client, server, err);
	if (!rc)
		server->is_ready = true;
	return rc;
}
