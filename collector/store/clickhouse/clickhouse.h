// SPDX-License-Identifier: Apache-2.0
// A store on ClickHouse servers: an implementation of collector/store/store.h over their HTTP interface. Any
// number of collectors may use the same servers: what they keep themselves are caches.
#pragma once

#include "collector/store/store.h"

enum {
	CLICKHOUSE_SERVERS_MAX = 64,
	CLICKHOUSE_NAME_BYTES_MAX = 64, // of a database, and of a cluster
};

struct clickhouse_options {
	// "http://host:8123", with commas between. Of a cluster: any of its servers. Otherwise each is a shard.
	const char *urls;
	const char *database;      // created if missing
	const char *user;          // NULL: the server's default user
	const char *password_file; // NULL: no password
	const char *cluster; // as the servers' configuration (remote_servers) names it; NULL: none
	// Between two inserts into a shard: ClickHouse wants few and large ones. What arrives meanwhile is one insert.
	uint32_t insert_interval_ms;
};

/** What the options say, before anything is asked. Returns 0; -EINVAL and @err with the remedy. */
int clickhouse_options_check(const struct clickhouse_options *options, struct error *err);

/**
 * Open the store, and create or migrate its tables. @options->path is not used. Returns 0; -EINVAL (an option); -EIO (a
 * server does not answer, or refuses); -EBADMSG (the tables are newer than this program); -ENOMEM; @err says what to do.
 */
int clickhouse_store_open(const struct store_options *options,
			  const struct clickhouse_options *clickhouse, struct store **ret_store,
			  struct error *err);
