// SPDX-License-Identifier: Apache-2.0
// The tables, and how a server gets them. All are partitioned by day, so that retention drops what belongs together.
//
//     samples    a row is what one batch has of one series in one minute, as arrays. It is inserted last: what it refers
//                to is there. A batch that is sent twice has equal keys: readers take one (LIMIT 1 BY), merges drop the others
//     stacks     a stack's locations, by day in which it was used
//     locations  a location and its lines; of several rows the one of most detail counts
//     series     labels and type
//     batches    the last acknowledged sequence of each agent's boot
//     versions   of the tables, one row for each migration
#pragma once

#include "collector/store/clickhouse/clickhouse_client.h"

enum clickhouse_table {
	CLICKHOUSE_LOCATIONS, // in the order of inserts
	CLICKHOUSE_STACKS,
	CLICKHOUSE_SERIES,
	CLICKHOUSE_SAMPLES,
	CLICKHOUSE_BATCHES,
	CLICKHOUSE_TABLES,
};

enum { CLICKHOUSE_SCHEMA_VERSION = 1 };

const char *clickhouse_table_name(enum clickhouse_table table);

/**
 * Find out a server's version, shard and replica, and create or migrate its tables. Afterwards it is ready. Returns 0;
 * -EBADMSG: the tables are newer than this program; -EINVAL: it is not in the cluster, or the cluster has replicas without
 * ZooKeeper; as clickhouse_ask_server().
 */
int clickhouse_schema_prepare(struct clickhouse_client *client, struct clickhouse_server *server,
			      struct error *err);
