// SPDX-License-Identifier: Apache-2.0
// Statements to ClickHouse servers over HTTP: which server is asked, over which connection, and what its answer is worth.
// Servers are grouped in shards. A shard's servers hold the same rows (replicas): if one does not answer, the next is
// asked. Thread-safe.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/http_fetch.h"
#include "base/id128.h"
#include "base/secret_file.h"
#include "collector/store/clickhouse/clickhouse.h"
#include "collector/store/deadline.h"

enum {
	CLICKHOUSE_CONNECTIONS_MAX = 16, // per server, at the same time: who wants more waits
	CLICKHOUSE_URL_BYTES_MAX = 256,
	CLICKHOUSE_CONNECT_S = 5,
	CLICKHOUSE_READ_S = 60,   // a statement without a deadline
	CLICKHOUSE_WRITE_S = 120, // an insert: agents wait, or send again
	CLICKHOUSE_ROW_BYTES_MAX = 256 << 20,
};

struct clickhouse_server {
	char url[CLICKHOUSE_URL_BYTES_MAX];
	uint32_t shard;       // CLICKHOUSE_NO_SHARD: not known yet
	uint32_t replica;     // from 1; 0: has none
	uint32_t version;     // 18.16 is 1816
	atomic_bool is_ready; // its tables are as this program wants them
	atomic_bool answers;
	pthread_mutex_t lock;
	pthread_cond_t returned;
	struct http_fetcher *idle[CLICKHOUSE_CONNECTIONS_MAX];
	uint32_t idle_count, open_count;
};

#define CLICKHOUSE_NO_SHARD UINT32_MAX

struct clickhouse_client {
	struct clickhouse_server servers[CLICKHOUSE_SERVERS_MAX];
	uint32_t server_count;
	_Atomic uint32_t shard_count; // 0: not known yet
	char database[CLICKHOUSE_NAME_BYTES_MAX];
	const char *cluster; // NULL: none
	char *user;          // NULL: none
	char password[SECRET_BYTES_MAX];
	bool has_password;
	_Atomic uint64_t requests, failures;
};

struct clickhouse_request {
	const char *sql;
	const struct buffer *rows; // what an INSERT inserts, as RowBinary; NULL: nothing
	// The external table "ids" (id FixedString(16)) that the statement refers to; NULL: none.
	const struct id128 *ids;
	uint32_t id_count;
	bool in_no_database;       // it may not exist yet
	struct deadline *deadline; // NULL: CLICKHOUSE_READ_S
	uint64_t answer_bytes_max; // 0: no limit, rows are taken as they arrive
	/** Read a row. If the reader has failed it was not whole, and the same row comes again. Not 0: end with it. */
	int (*row)(void *context, struct reader *reader);
	void *context;
};

int clickhouse_client_open(struct clickhouse_client *client,
			   const struct clickhouse_options *options, struct error *err);
void clickhouse_client_close(struct clickhouse_client *client);

/**
 * Ask one server. Returns 0; -EAGAIN: it does not answer, or not all of it; -EREMOTEIO: it refuses the statement; -ETIMEDOUT,
 * -ECANCELED: the deadline; -EBADMSG: rows are malformed; -EFBIG: the answer is too large; -ENOMEM; what row() returned.
 */
int clickhouse_ask_server(struct clickhouse_client *client, struct clickhouse_server *server,
			  const struct clickhouse_request *request, struct error *err);
/**
 * Ask a server of @shard, the next one if it does not answer and nothing of its answer has been taken. Returns as above,
 * but -EIO for -EAGAIN.
 */
int clickhouse_ask(struct clickhouse_client *client, uint32_t shard,
		   const struct clickhouse_request *request, struct error *err);
