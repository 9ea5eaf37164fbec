// SPDX-License-Identifier: Apache-2.0
// The store on ClickHouse: what every store must do, against a real server.
#include <fcntl.h>

#include "tests/unit/collector/store/clickhouse/clickhouse_server.h"
#include "tests/unit/collector/store/store_intervals.h"

static struct clickhouse_server_process server;

static int conformance_open(const struct store_options *options, struct store **ret_store,
			    struct error *err)
{
	char database[64];

	database_of_path(options->path, database);
	const struct clickhouse_options clickhouse = { .urls = server.url, .database = database };
	return clickhouse_store_open(options, &clickhouse, ret_store, err);
}

static int start_server(void **state)
{
	const char *url = getenv("CLICKHOUSE_URL");

	(void)state;
	if (url) {
		snprintf(server.url, sizeof(server.url), "%s", url);
		return 0;
	}
	if (!getenv("CLICKHOUSE")) { // a minute of CPU time: some ten thousand statements
		printf("# SKIP all: `make clickhouse` runs them\n");
		exit(0);
	}
	if (!clickhouse_server_prepare(&server)) {
		printf("# SKIP all: no " CLICKHOUSE_PROGRAM " (apt install clickhouse-server)\n");
		exit(0);
	}
	clickhouse_server_configure(&server, "");
	clickhouse_server_run(&server);
	return 0;
}

static int stop_server(void **state)
{
	(void)state;
	clickhouse_server_remove(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONFORMANCE_TESTS,
		INTERVAL_TESTS,
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
