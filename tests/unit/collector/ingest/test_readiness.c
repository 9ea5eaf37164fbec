// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/readiness.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/ingest/rpc_events.h"
#include "tests/test.h"

static atomic_bool hold;

static enum rpc_status health(void *context, const struct rpc_request *request,
			      struct buffer *response, struct error *err)
{
	while (hold)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return readiness_health(context, request, response, err);
}

static bool await_state(struct readiness *readiness, bool wanted, char text[READINESS_TEXT_BYTES])
{
	uint64_t until_ns = clock_monotonic_ns() + 30 * NS_PER_SECOND;

	while (readiness_read(readiness, text) != wanted && clock_monotonic_ns() < until_ns)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	return readiness_read(readiness, text) == wanted;
}

TEST(a_hanging_handler_is_not_ready)
{
	static struct metrics metrics;
	static struct rpc_events log = RPC_EVENTS_INIT;
	const struct rpc_method method = { .name = HEALTH_METHOD,
					   .handle = health,
					   .work_per_byte = 1 };
	const struct rpc_server_options options = { .address = "127.0.0.1:0",
						    .message_bytes_max = 1000,
						    .threads = 1,
						    .methods = &method,
						    .method_count = 1,
						    .report = rpc_events_report,
						    .report_context = &log };
	struct rpc_server *server = NULL;
	char text[READINESS_TEXT_BYTES];
	struct error err = { 0 };
	int port;

	log.metrics = &metrics;
	EXPECT_EQ(0, rpc_server_open(&options, &server, &port, &err), err.text);
	struct readiness *readiness = readiness_open(server, &metrics);
	assert_non_null(readiness);
	assert_true(readiness_read(readiness, text));

	hold = true;
	assert_true(await_state(readiness, false, text));
	assert_non_null(strstr(text, "was not answered within"));
	assert_true(metrics.counters[METRIC_NOT_READY] > 0);
	hold = false;
	assert_true(await_state(readiness, true, text));
	readiness_stop(readiness);
	rpc_server_close(server, 1000);
	readiness_free(readiness);
}

TEST(events_are_counted)
{
	static struct metrics metrics;
	static struct rpc_events log = RPC_EVENTS_INIT;

	log.metrics = &metrics;
	for (int event = 0; event < RPC_EVENT_COUNT; event++)
		rpc_events_report(&log, event, "10.0.0.7");
	rpc_events_report(&log, RPC_EVENT_NO_DESCRIPTOR, "");
	EXPECT_EQ(2, metrics.counters[METRIC_INGEST_NO_DESCRIPTOR], "twice");
	EXPECT_EQ(1, metrics.counters[METRIC_INGEST_MEMORY_FULL], "the last");
	EXPECT_EQ(1, metrics.counters[METRIC_INGEST_CONNECTIONS_FULL], "the first");
}

RUN_TESTS(cmocka_unit_test(a_hanging_handler_is_not_ready), cmocka_unit_test(events_are_counted))
