// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/test.h"

enum { MESSAGE_MAX = 1 << 20, DEADLINE_MS = 60 * 1000 };

static atomic_int running;
static atomic_bool hold; // handlers of /test/Hold wait while this is set

static void sleep_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

static enum rpc_status echo(void *context, const struct rpc_request *request,
			    struct buffer *response, struct error *err)
{
	(void)context, (void)err;
	buffer_append(response, request->bytes, request->size);
	return RPC_OK;
}

static enum rpc_status refuse(void *context, const struct rpc_request *request,
			      struct buffer *response, struct error *err)
{
	(void)context, (void)request, (void)response;
	error_set(err, -EINVAL,
		  "series[3].stacks[17]: 900 is not below stack_ids' 400, \xc3\xa4\n%%");
	return RPC_INVALID_ARGUMENT;
}

static enum rpc_status wait_while_held(void *context, const struct rpc_request *request,
				       struct buffer *response, struct error *err)
{
	running++;
	while (hold)
		sleep_ms(1);
	running--;
	return echo(context, request, response, err);
}

// Answers with as many zeros as the request says: 7 MB of them are a few KB on the wire.
static enum rpc_status blow(void *context, const struct rpc_request *request,
			    struct buffer *response, struct error *err)
{
	(void)context, (void)err;
	uint32_t count;

	memcpy(&count, request->bytes, sizeof(count));
	void *zeros = buffer_extend(response, count);
	if (zeros)
		memset(zeros, 0, count);
	return RPC_OK;
}

static atomic_int failed_count;

static enum rpc_status fail_for_now(void *context, const struct rpc_request *request,
				    struct buffer *response, struct error *err)
{
	(void)context, (void)request, (void)response;
	failed_count++;
	error_set(err, -EIO, "the disk is away");
	return RPC_UNAVAILABLE;
}

// As for a tenant whose rate is used up.
static enum rpc_status put_off(void *context, const struct rpc_request *request,
			       struct buffer *response, struct error *err)
{
	(void)context, (void)response;
	*request->ret_pause_ms = 2500;
	error_set(err, -EUSERS, "later");
	return RPC_RESOURCE_EXHAUSTED;
}

static enum rpc_status put_off_visitor(void *context, const struct rpc_visitor *visitor,
				       void **ret_caller, struct error *err)
{
	(void)context, (void)ret_caller;
	*visitor->ret_pause_ms = 700;
	error_set(err, -EUSERS, "later");
	return RPC_RESOURCE_EXHAUSTED;
}

static const struct rpc_method methods[] = {
	{ .name = "/test/PutOff", .handle = put_off, .work_per_byte = 1 },
	{ .name = "/test/NotNow", .handle = echo, .admit = put_off_visitor, .work_per_byte = 1 },
	{ .name = "/test/FailForNow", .handle = fail_for_now, .work_per_byte = 1 },
	{ .name = "/test/Echo", .handle = echo, .context = NULL, .work_per_byte = 1 },
	{ .name = "/test/Refuse", .handle = refuse, .context = NULL, .work_per_byte = 1 },
	{ .name = "/test/Hold", .handle = wait_while_held, .context = NULL, .work_per_byte = 1 },
	{ .name = "/test/Blow", .handle = blow, .context = NULL, .work_per_byte = 1 },
};

static struct rpc_server *server_at(int port, int *ret_port)
{
	char address[64];
	const struct rpc_server_options options = {
		.address = address,
		.message_bytes_max = MESSAGE_MAX,
		.threads = 3,
		.methods = methods,
		.method_count = ARRAY_SIZE(methods),
	};
	struct rpc_server *server = NULL;
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	int rc = rpc_server_open(&options, &server, ret_port, &err);
	EXPECT_EQ(0, rc, err.text);
	return server;
}

static struct rpc_client *client_of(int port, size_t message_max)
{
	char address[64];
	struct rpc_client *client = NULL;
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	EXPECT_EQ(0, rpc_client_open(address, message_max, NULL, &client, &err), err.text);
	return client;
}

static struct buffer buffer_of(size_t size, bool random)
{
	struct buffer buffer = { 0 };
	uint8_t *bytes = buffer_extend(&buffer, size);
	uint32_t seed = 7;

	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = random ? seed >> 24 : 0;
	}
	return buffer;
}

static const struct {
	const char *what;
	size_t size;
	bool random;
} echoes[] = {
	{ "nothing", 0, false },
	{ "one byte", 1, false },
	{ "a page that compresses well", 4096, false },
	{ "a page that does not compress", 4096, true },
	{ "exactly the limit, compressible", MESSAGE_MAX, false },
	{ "exactly the limit, random", MESSAGE_MAX, true },
};

TEST(returns_messages_as_sent)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, MESSAGE_MAX);

	for EACH (row, echoes) {
		_cleanup_(buffer_deinit) struct buffer request = buffer_of(row->size, row->random);
		_cleanup_(buffer_deinit) struct buffer response = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(RPC_OK,
			  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response,
					  &err),
			  err.text);
		EXPECT_EQ(row->size, response.size, row->what);
		EXPECT_EQ(0, row->size ? memcmp(request.bytes, response.bytes, row->size) : 0,
			  row->what);
	}
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

static const struct {
	const char *what;
	const char *method;
	size_t size;
	bool random;
	enum rpc_status status;
	const char *words; // must be in the error's text
} refusals[] = {
	{ "the handler's words travel", "/test/Refuse", 1, false, RPC_INVALID_ARGUMENT,
	  "INVALID_ARGUMENT: series[3].stacks[17]: 900 is not below stack_ids' 400, \xc3\xa4\n%" },
	{ "unknown method", "/test/Nothing", 1, false, RPC_UNIMPLEMENTED, "no such method" },
	{ "one byte too large", "/test/Echo", MESSAGE_MAX + 1, true, RPC_RESOURCE_EXHAUSTED,
	  "larger" },
	{ "small on the wire, too large inflated", "/test/Echo", 64 * MESSAGE_MAX, false,
	  RPC_RESOURCE_EXHAUSTED, "inflates to more than 1048576 bytes" },
};

TEST(errors_carry_status_and_text)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, 100 * MESSAGE_MAX);

	for EACH (row, refusals) {
		_cleanup_(buffer_deinit) struct buffer request = buffer_of(row->size, row->random);
		_cleanup_(buffer_deinit) struct buffer response = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->status,
			  rpc_client_call(client, row->method, &request, DEADLINE_MS, &response,
					  &err),
			  row->what);
		if (!strstr(err.text, row->words))
			fail_msg("%s: \"%s\" lacks \"%s\"", row->what, err.text, row->words);
		EXPECT_EQ(0, response.size, row->what);
	}
	// The server is as good as before.
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(100, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, NULL),
		  "after");
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

TEST(a_refusal_says_when_to_try_again)
{
	static const struct {
		const char *method;
		enum rpc_status status;
		uint32_t pause_ms;
		int code;
	} rows[] = {
		{ "/test/PutOff", RPC_RESOURCE_EXHAUSTED, 2500, -EUSERS },
		{ "/test/NotNow", RPC_RESOURCE_EXHAUSTED, 700, -EUSERS },
		{ "/test/Refuse", RPC_INVALID_ARGUMENT, 0, -EIO },
		{ "/test/Echo", RPC_OK, 0, 0 },
	};
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, MESSAGE_MAX);

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer request = buffer_of(100, true);
		_cleanup_(buffer_deinit) struct buffer response = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->status,
			  rpc_client_call(client, row->method, &request, DEADLINE_MS, &response,
					  &err),
			  row->method);
		EXPECT_EQ(row->pause_ms, rpc_client_pause_ms(client), row->method);
		EXPECT_EQ(row->code, err.code, row->method);
	}
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

TEST(refuses_responses_above_the_limit)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, 5000);
	uint32_t count = 5001;
	_cleanup_(buffer_deinit) struct buffer request = { 0 };
	_cleanup_(buffer_deinit) struct buffer response = { 0 };

	buffer_append(&request, &count, sizeof(count));
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED,
		  rpc_client_call(client, "/test/Blow", &request, DEADLINE_MS, &response, NULL),
		  "5001");
	count = 5000;
	buffer_clear(&request);
	buffer_clear(&response);
	buffer_append(&request, &count, sizeof(count));
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Blow", &request, DEADLINE_MS, &response, NULL),
		  "5000");
	EXPECT_EQ(5000, response.size, "5000");
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

TEST(a_call_that_was_answered_is_not_repeated)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, MESSAGE_MAX);
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct error err = { 0 };

	// With a connection of an earlier call.
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, &err),
		  err.text);
	EXPECT_EQ(
		RPC_UNAVAILABLE,
		rpc_client_call(client, "/test/FailForNow", &request, DEADLINE_MS, &response, &err),
		"fails");
	EXPECT_EQ(1, failed_count, "once");
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

TEST(a_deadline_ends_a_call)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, MESSAGE_MAX);
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };

	hold = true;
	uint64_t before_ns = clock_monotonic_ns();
	EXPECT_EQ(RPC_DEADLINE_EXCEEDED,
		  rpc_client_call(client, "/test/Hold", &request, 200, &response, NULL), "held");
	uint64_t took_ms = (clock_monotonic_ns() - before_ns) / NS_PER_MS;
	hold = false;
	assert_in_range(took_ms, 190, DEADLINE_MS);
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Hold", &request, DEADLINE_MS, &response, NULL),
		  "freed");
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

struct canceller {
	struct rpc_client *client;
	pthread_t thread;
};

static void *cancel_once_running(void *argument)
{
	struct canceller *canceller = argument;

	while (!running)
		sleep_ms(1);
	rpc_client_cancel(canceller->client);
	return NULL;
}

TEST(cancels_a_call_from_another_thread)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct canceller canceller = { .client = client_of(port, MESSAGE_MAX) };
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };

	rpc_client_cancel(canceller.client); // nothing in flight: nothing happens
	hold = true;
	pthread_create(&canceller.thread, NULL, cancel_once_running, &canceller);
	EXPECT_EQ(RPC_CANCELLED,
		  rpc_client_call(canceller.client, "/test/Hold", &request, DEADLINE_MS, &response,
				  NULL),
		  "call");
	hold = false;
	pthread_join(canceller.thread, NULL);
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(canceller.client, "/test/Echo", &request, DEADLINE_MS, &response,
				  NULL),
		  "next");
	rpc_client_close(canceller.client);
	rpc_server_close(server, 1000);
}

TEST(busy_port_error_has_remedy)
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_server *second = NULL;
	char address[64];
	const struct rpc_server_options options = { .address = address,
						    .message_bytes_max = 1000,
						    .threads = 1 };
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	EXPECT_EQ(-EADDRINUSE, rpc_server_open(&options, &second, &port, &err), "rc");
	assert_non_null(
		strstr(err.text, "another process has this port; stop it, or choose another"));
	assert_null(second);
	rpc_server_close(server, 1000);
}

static const struct {
	const char *address;
	unsigned port_min;
	int rc;
} addresses[] = {
	{ "127.0.0.1:7171", 1, 0 },
	{ "localhost:1", 1, 0 },
	{ "[::1]:7171", 1, 0 },
	{ "unix:/tmp/x", 1, 0 },
	{ "127.0.0.1:0", 0, 0 },
	{ "127.0.0.1:0", 1, -EINVAL },
	{ "", 1, -EINVAL },
	{ ":7171", 1, -EINVAL },
	{ "localhost", 1, -EINVAL },
	{ "localhost:", 1, -EINVAL },
	{ "localhost:65536", 1, -EINVAL },
	{ "localhost:-1", 1, -EINVAL },
	{ "localhost: 1", 1, -EINVAL },
	{ "localhost:1x", 1, -EINVAL },
	{ "::1:7171", 1, -EINVAL },
	{ "http://localhost:7171", 1, -EINVAL },
	{ "unix:", 1, -EINVAL },
	{ "unix:/0123456789012345678901234567890123456789012345678901234567890123456789"
	  "0123456789012345678901234567890123456789",
	  1, -EINVAL },
};

TEST(checks_addresses)
{
	for EACH (row, addresses) {
		struct error err = { 0 };

		EXPECT_EQ(row->rc, rpc_address_check(row->address, row->port_min, &err),
			  row->address);
		EXPECT_EQ(row->rc, err.code, row->address);
	}
}

TEST(reconnects_at_once_when_the_server_returns)
{
	int port, same_port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, MESSAGE_MAX);
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct error err = { 0 };

	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, &err),
		  "first");
	rpc_server_close(server, 1000);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(RPC_UNAVAILABLE,
			  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response,
					  &err),
			  "away");
	assert_non_null(strstr(err.text, "Connection refused"));

	server = server_at(port, &same_port);
	EXPECT_EQ(port, same_port, "the port asked for");
	// It would be away for as long as gRPC backs off.
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, &err),
		  "back");
	rpc_server_close(server, 1000);

	// Restarted between two calls: the dead link is noticed.
	server = server_at(port, &same_port);
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, &err),
		  err.text);
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

struct caller {
	int port;
	enum rpc_status status;
	pthread_t thread;
};

static void *call_hold(void *argument)
{
	struct caller *caller = argument;
	struct rpc_client *client = client_of(caller->port, MESSAGE_MAX);
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };

	caller->status =
		rpc_client_call(client, "/test/Hold", &request, DEADLINE_MS, &response, NULL);
	rpc_client_close(client);
	return NULL;
}

static void *release_later(void *argument)
{
	sleep_ms(*(uint32_t *)argument);
	hold = false;
	return NULL;
}

// Close while two handlers work that end after @work_ms; returns what their clients saw.
static void close_under_way(uint32_t work_ms, uint32_t grace_ms, struct caller callers[2])
{
	int port;
	struct rpc_server *server = server_at(0, &port);
	pthread_t releaser;

	hold = true;
	for (int i = 0; i < 2; i++) {
		callers[i].port = port;
		pthread_create(&callers[i].thread, NULL, call_hold, &callers[i]);
	}
	while (running < 2)
		sleep_ms(1);
	pthread_create(&releaser, NULL, release_later, &work_ms);
	rpc_server_close(server, grace_ms);
	EXPECT_EQ(0, running, "handlers after close");
	for (int i = 0; i < 2; i++)
		pthread_join(callers[i].thread, NULL);
	pthread_join(releaser, NULL);
}

TEST(closing_lets_calls_in_flight_finish)
{
	struct caller callers[2];

	close_under_way(100, 5000, callers);
	EXPECT_EQ(RPC_OK, callers[0].status, "first");
	EXPECT_EQ(RPC_OK, callers[1].status, "second");
}

TEST(closing_cancels_calls_after_the_grace)
{
	struct caller callers[2];

	close_under_way(400, 50, callers);
	assert_true(callers[0].status != RPC_OK);
	assert_true(callers[1].status != RPC_OK);
}

static void *call_echo(void *argument)
{
	struct caller *caller = argument;
	struct rpc_client *client = client_of(caller->port, MESSAGE_MAX);
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(MESSAGE_MAX / 2, true);

	for (int i = 0; i < 20 && caller->status == RPC_OK; i++) {
		_cleanup_(buffer_deinit) struct buffer response = { 0 };

		caller->status =
			rpc_client_call(client, "/test/Echo", &request, 60 * 1000, &response, NULL);
		if (caller->status == RPC_OK && response.size != request.size)
			caller->status = RPC_INTERNAL;
	}
	rpc_client_close(client);
	return NULL;
}

TEST(serves_more_clients_than_threads)
{
	struct caller callers[12] = { 0 };
	int port;
	struct rpc_server *server = server_at(0, &port);

	for EACH (caller, callers) {
		caller->port = port;
		pthread_create(&caller->thread, NULL, call_echo, caller);
	}
	for EACH (caller, callers) {
		pthread_join(caller->thread, NULL);
		EXPECT_EQ(RPC_OK, caller->status, "a client among many");
	}
	rpc_server_close(server, 1000);
}

static int connect_to(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	EXPECT_EQ(0, connect(fd, (struct sockaddr *)&address, sizeof(address)), "connect");
	return fd;
}

TEST(survives_bytes_that_are_not_http2)
{
	static const char *const rubbish[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"",
	};
	int port;
	struct rpc_server *server = server_at(0, &port);
	struct rpc_client *client = client_of(port, MESSAGE_MAX);
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };

	for EACH (bytes, rubbish) {
		int fd = connect_to(port);

		EXPECT_EQ(strlen(*bytes), send(fd, *bytes, strlen(*bytes), MSG_NOSIGNAL), "send");
		shutdown(fd, SHUT_WR);
		close(fd);
	}
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, NULL),
		  "after");
	rpc_client_close(client);
	rpc_server_close(server, 1000);
}

// A call made with gRPC itself, which can say what our client never would. Returns the status.
static int raw_call(int port, const char *encoding, const void *bytes, size_t size,
		    bool send_message)
{
	char address[64];
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	grpc_init();
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	grpc_channel *channel = grpc_channel_create(address, credentials, NULL);
	grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
	gpr_timespec deadline =
		gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN));
	grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
						   grpc_slice_from_static_string("/test/Echo"),
						   NULL, deadline, NULL);
	grpc_slice slice = grpc_slice_from_copied_buffer(bytes, size);
	grpc_byte_buffer *message =
		grpc_raw_compressed_byte_buffer_create(&slice, 1, GRPC_COMPRESS_GZIP);
	grpc_metadata encoding_request = { .key = grpc_slice_from_static_string(
						   "grpc-internal-encoding-request"),
					   .value = grpc_slice_from_static_string(encoding) };
	grpc_byte_buffer *response = NULL;
	grpc_metadata_array initial, trailing;
	grpc_status_code status;
	grpc_slice details;
	grpc_metadata_array_init(&initial);
	grpc_metadata_array_init(&trailing);
	grpc_op ops[] = {
		{ .op = GRPC_OP_SEND_INITIAL_METADATA,
		  .data.send_initial_metadata = { .count = 1, .metadata = &encoding_request } },
		{ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT },
		{ .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
		  .data.recv_status_on_client = { .trailing_metadata = &trailing,
						  .status = &status,
						  .status_details = &details } },
		{ .op = GRPC_OP_RECV_INITIAL_METADATA,
		  .data.recv_initial_metadata.recv_initial_metadata = &initial },
		{ .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &response },
		{ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message },
	};

	EXPECT_EQ(GRPC_CALL_OK, grpc_call_start_batch(call, ops, send_message ? 6 : 5, call, NULL),
		  "start");
	grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_slice_unref(details);
	grpc_slice_unref(slice);
	grpc_byte_buffer_destroy(message);
	if (response)
		grpc_byte_buffer_destroy(response);
	grpc_metadata_array_destroy(&initial);
	grpc_metadata_array_destroy(&trailing);
	grpc_call_unref(call);
	grpc_channel_destroy(channel);
	grpc_completion_queue_shutdown(queue);
	grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
	grpc_completion_queue_destroy(queue);
	grpc_channel_credentials_release(credentials);
	grpc_shutdown();
	return status;
}

TEST(refuses_damaged_compression_and_missing_messages)
{
	static const uint8_t empty_gzip[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3,
					      3,    0,    0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t trailing_gzip[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3,
						 0,    0,    0, 0, 0, 0, 0, 0, 0, 7 };
	int port;
	struct rpc_server *server = server_at(0, &port);

	EXPECT_EQ(RPC_OK, raw_call(port, "gzip", empty_gzip, sizeof(empty_gzip), true),
		  "gzip of nothing");
	EXPECT_EQ(RPC_INVALID_ARGUMENT, raw_call(port, "gzip", "rubbish", 7, true), "not gzip");
	EXPECT_EQ(RPC_INVALID_ARGUMENT, raw_call(port, "gzip", empty_gzip, 12, true), "cut gzip");
	EXPECT_EQ(RPC_INVALID_ARGUMENT,
		  raw_call(port, "gzip", trailing_gzip, sizeof(trailing_gzip), true),
		  "bytes after the gzip");
	EXPECT_EQ(RPC_INVALID_ARGUMENT, raw_call(port, "gzip", "", 0, false), "no message");
	rpc_server_close(server, 1000);
}

TEST(serves_a_unix_socket)
{
	char address[64];
	const struct rpc_server_options options = { .address = address,
						    .message_bytes_max = MESSAGE_MAX,
						    .threads = 1,
						    .methods = methods,
						    .method_count = ARRAY_SIZE(methods) };
	struct rpc_server *server = NULL;
	struct rpc_client *client = NULL;
	_cleanup_(buffer_deinit) struct buffer request = buffer_of(10, true);
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct error err = { 0 };
	int port = -1;

	snprintf(address, sizeof(address), "unix:/tmp/cairn-test-rpc-%d", getpid());
	EXPECT_EQ(0, rpc_server_open(&options, &server, &port, &err), err.text);
	EXPECT_EQ(0, port, "port");
	EXPECT_EQ(0, rpc_client_open(address, MESSAGE_MAX, NULL, &client, &err), err.text);
	EXPECT_EQ(RPC_OK,
		  rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, &err),
		  err.text);
	rpc_client_close(client);
	rpc_server_close(server, 1000);
	unlink(address + 5);
}

TEST(refuses_a_ca_without_a_certificate)
{
	char path[] = "/tmp/cairn-ca-XXXXXX", expected[80];
	const struct rpc_security security = { .ca_file = path };
	struct rpc_client *client = NULL;
	struct error err = { 0 };
	int fd = mkstemp(path);

	assert_int_equal(4, write(fd, "text", 4));
	close(fd);
	snprintf(expected, sizeof(expected), "%s holds no certificate (PEM)", path);
	EXPECT_EQ(-EINVAL, rpc_client_open("127.0.0.1:1", 1, &security, &client, &err), "open");
	EXPECT_STR(expected, err.text, "what is wrong");
	unlink(path);
}

RUN_TESTS(cmocka_unit_test(refuses_a_ca_without_a_certificate),
	  cmocka_unit_test(returns_messages_as_sent),
	  cmocka_unit_test(errors_carry_status_and_text),
	  cmocka_unit_test(refuses_responses_above_the_limit),
	  cmocka_unit_test(a_refusal_says_when_to_try_again),
	  cmocka_unit_test(a_call_that_was_answered_is_not_repeated),
	  cmocka_unit_test(a_deadline_ends_a_call),
	  cmocka_unit_test(cancels_a_call_from_another_thread),
	  cmocka_unit_test(busy_port_error_has_remedy), cmocka_unit_test(checks_addresses),
	  cmocka_unit_test(reconnects_at_once_when_the_server_returns),
	  cmocka_unit_test(closing_lets_calls_in_flight_finish),
	  cmocka_unit_test(closing_cancels_calls_after_the_grace),
	  cmocka_unit_test(serves_more_clients_than_threads),
	  cmocka_unit_test(survives_bytes_that_are_not_http2),
	  cmocka_unit_test(refuses_damaged_compression_and_missing_messages),
	  cmocka_unit_test(serves_a_unix_socket))
