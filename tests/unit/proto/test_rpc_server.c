// SPDX-License-Identifier: Apache-2.0
// The server against clients that stall, flood and lie, while honest ones call.
#include "proto/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include <zlib.h>

#include "base/clock.h"
#include "tests/unit/proto/http2_client.h"

enum { MESSAGE_MAX = 1 << 20, DEADLINE_MS = 20 * 1000, BUDGET = 8 << 20 };

static atomic_uint events[32];
static atomic_bool hold;
static atomic_int running;
static struct byte_budget budget = { .bytes_max = BUDGET };

static void sleep_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

static void count(void *context, enum rpc_event event, const char *peer)
{
	(void)context;
	assert_non_null(peer);
	events[event]++;
}

static enum rpc_status echo(void *context, const struct rpc_request *request,
			    struct buffer *response, struct error *err)
{
	(void)context, (void)err;
	buffer_append(response, request->bytes, request->size);
	return RPC_OK;
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

static const struct rpc_method methods[] = {
	{ .name = "/test/Echo", .handle = echo, .context = NULL, .work_per_byte = 2 },
	{ .name = "/test/Hold", .handle = wait_while_held, .context = NULL, .work_per_byte = 2 },
};

struct rig {
	struct rpc_server_limits limits;
	struct rpc_server *server;
	int port;
};

static void rig_init(struct rig *rig)
{
	rig->limits = rpc_server_limits_default;
	for EACH (event, events)
		*event = 0;
	EXPECT_EQ(0, budget.bytes_taken, "nothing of the test before");
	hold = false;
}

static void rig_open(struct rig *rig)
{
	const struct rpc_server_options options = { .address = "127.0.0.1:0",
						    .message_bytes_max = MESSAGE_MAX,
						    .threads = 2,
						    .methods = methods,
						    .method_count = ARRAY_SIZE(methods),
						    .limits = &rig->limits,
						    .budget = &budget,
						    .report = count };
	struct error err = { 0 };

	EXPECT_EQ(0, rpc_server_open(&options, &rig->server, &rig->port, &err), err.text);
}

static void rig_close(struct rig *rig)
{
	rpc_server_close(rig->server, 1000);
	EXPECT_EQ(0, budget.bytes_taken, "all memory was given back");
}

static void expect_honest_call(struct rig *rig, const char *what)
{
	_cleanup_(buffer_deinit) struct buffer request = { 0 };
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct rpc_client *client = NULL;
	struct error err = { 0 };
	char address[64];

	snprintf(address, sizeof(address), "127.0.0.1:%d", rig->port);
	buffer_append_string(&request, "honest");
	EXPECT_EQ(0, rpc_client_open(address, MESSAGE_MAX, NULL, &client, &err), err.text);
	enum rpc_status status =
		rpc_client_call(client, "/test/Echo", &request, DEADLINE_MS, &response, &err);
	rpc_client_close(client);
	if (status != RPC_OK)
		fail_msg("%s: %s", what, err.text);
}

static void await_event(enum rpc_event event, unsigned int wanted, const char *what)
{
	uint64_t until_ns = clock_monotonic_ns() + 20 * NS_PER_SECOND;

	while (events[event] < wanted) {
		if (clock_monotonic_ns() > until_ns)
			fail_msg("%s: counted %u of %u", what, events[event], wanted);
		sleep_ms(5);
	}
}

static const uint8_t half_message[] = { 0, 0, 0, 0, 200, 1, 2, 3 };

TEST(stalled_messages_hold_no_thread)
{
	struct http2_client stalled[2];
	struct rig rig;

	rig_init(&rig);
	rig_open(&rig);
	for EACH (client, stalled) {
		http2_open(client, rig.port, "127.0.0.2", 65535);
		for (int i = 0; i < 32; i++)
			http2_call(client, "/test/Echo", half_message, sizeof(half_message), false);
	}
	expect_honest_call(&rig, "beside 64 stalled calls");
	for EACH (client, stalled)
		http2_close(client);
	rig_close(&rig);
}

TEST(a_late_message_is_refused)
{
	struct http2_client client;
	struct rig rig;

	rig_init(&rig);
	rig.limits.message_ms = 50;
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	http2_call(&client, "/test/Echo", half_message, sizeof(half_message), false);
	assert_true(http2_await(&client, 1));
	EXPECT_EQ(RPC_DEADLINE_EXCEEDED, client.status, client.words);
	EXPECT_EQ(1, events[RPC_EVENT_MESSAGE_LATE], "counted");
	http2_close(&client);
	rig_close(&rig);
}

TEST(a_refusal_waits_for_the_message)
{
	struct http2_client client;
	struct rig rig;

	rig_init(&rig);
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	http2_call(&client, "/test/Nothing", half_message, sizeof(half_message), false);
	http2_read_for(&client, 20);
	http2_finish_call(&client);
	assert_true(http2_await(&client, 1));
	EXPECT_EQ(RPC_UNIMPLEMENTED, client.status, client.words);
	EXPECT_EQ(false, client.was_early, "after the message");
	http2_close(&client);

	http2_open(&client, rig.port, "127.0.0.1", 65535);
	http2_call(&client, "/test/Nothing", half_message, sizeof(half_message), false);
	assert_true(http2_await(&client, 1)); // reset in the end
	EXPECT_EQ(RPC_UNIMPLEMENTED, client.status, "a message that never ends");
	http2_close(&client);
	rig_close(&rig);
}

TEST(a_silent_connection_is_closed)
{
	struct rig rig;

	rig_init(&rig);
	rig.limits.handshake_ms = 50;
	rig_open(&rig);
	_cleanup_close_ int fd = http2_socket(rig.port, "127.0.0.1");
	assert_true(http2_await_close(fd));
	EXPECT_EQ(1, events[RPC_EVENT_HANDSHAKE_LATE], "counted");
	rig_close(&rig);
}

TEST(an_unread_answer_is_dropped)
{
	static uint8_t message[5 + 200000] = { 0, 0, 3, 13, 64 }; // 200000
	struct http2_client client;
	struct rig rig;

	rig_init(&rig);
	rig.limits.answer_ms = 100;
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 0);
	http2_call(&client, "/test/Echo", message, sizeof(message), true);
	assert_false(http2_await(&client, 1));
	EXPECT_EQ(1, events[RPC_EVENT_ANSWER_LATE], "counted");
	http2_close(&client);
	rig_close(&rig);
}

TEST(a_client_that_answers_no_ping_is_closed)
{
	struct rig rig;
	struct http2_client client;

	rig_init(&rig);
	rig.limits.quiet_ms = 50;
	rig.limits.ping_ms = 50;
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	assert_true(http2_await_close(client.fd));
	EXPECT_EQ(1, events[RPC_EVENT_PEER_DEAD], "counted");
	http2_close(&client);
	rig_close(&rig);
}

TEST(a_flood_of_pings_is_closed)
{
	struct rig rig;
	struct http2_client client;

	rig_init(&rig);
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	for (int i = 0; i < 20000 && !events[RPC_EVENT_PEER_HOSTILE]; i++) {
		nghttp2_submit_ping(client.session, NGHTTP2_FLAG_NONE, NULL);
		http2_flush(&client);
	}
	await_event(RPC_EVENT_PEER_HOSTILE, 1, "a flood");
	expect_honest_call(&rig, "after a flood");
	http2_close(&client);
	rig_close(&rig);
}

TEST(an_old_connection_is_asked_to_leave)
{
	struct rig rig;
	struct http2_client client;

	rig_init(&rig);
	rig.limits.age_ms = 50;
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	assert_true(http2_await_close(client.fd));
	http2_close(&client);
	expect_honest_call(&rig, "a new one");
	rig_close(&rig);
}

TEST(an_address_has_so_many_connections)
{
	struct rig rig;

	rig_init(&rig);
	rig.limits.connections_per_peer_max = 2;
	rig_open(&rig);
	_cleanup_close_ int first = http2_socket(rig.port, "127.0.0.2");
	_cleanup_close_ int second = http2_socket(rig.port, "127.0.0.2");
	_cleanup_close_ int third = http2_socket(rig.port, "127.0.0.2");
	assert_true(http2_await_close(third));
	EXPECT_EQ(1, events[RPC_EVENT_PEER_CONNECTIONS_FULL], "counted");
	expect_honest_call(&rig, "another address");
	rig_close(&rig);
}

TEST(full_connections_are_refused_and_not_ready)
{
	struct rig rig;
	struct error err = { 0 };

	rig_init(&rig);
	rig.limits.connections_max = 1;
	rig_open(&rig);
	EXPECT_EQ(0, rpc_server_probe(rig.server, "/test/Echo", 5000, &err), err.text);
	while (rpc_server_connections(rig.server))
		sleep_ms(1);
	int fd = http2_socket(rig.port, "127.0.0.2");
	while (!rpc_server_connections(rig.server))
		sleep_ms(1);
	assert_true(rpc_server_probe(rig.server, "/test/Echo", 5000, &err) < 0);
	assert_non_null(strstr(err.text, "itself"));
	assert_true(events[RPC_EVENT_CONNECTIONS_FULL] > 0);
	close(fd);
	while (rpc_server_connections(rig.server))
		sleep_ms(1);
	EXPECT_EQ(0, rpc_server_probe(rig.server, "/test/Echo", 5000, &err), err.text);
	rig_close(&rig);
}

// Leave this process @left descriptors more than it has.
static void limit_descriptors(int left)
{
	struct rlimit limit;
	int highest = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(highest);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)(highest + left);
	EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

TEST(accepts_again_after_descriptors_ran_out)
{
	struct rlimit before;
	struct rig rig;
	int fds[64];
	int fd_count = 0;

	rig_init(&rig);
	rig_open(&rig);
	expect_honest_call(&rig, "before");
	getrlimit(RLIMIT_NOFILE, &before);
	// Sockets first: connecting them takes no more of this process's.
	for (; fd_count < 32; fd_count++)
		fds[fd_count] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	limit_descriptors(8);
	for (int i = 0; i < fd_count; i++) {
		struct sockaddr_in to = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)rig.port),
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

		EXPECT_EQ(0, connect(fds[i], (struct sockaddr *)&to, sizeof(to)), "connect");
	}
	await_event(RPC_EVENT_NO_DESCRIPTOR, 1, "no descriptor was left");
	for (int i = 0; i < fd_count; i++)
		close(fds[i]);
	setrlimit(RLIMIT_NOFILE, &before);
	expect_honest_call(&rig, "after");
	rig_close(&rig);
}

// The descriptor of this process that listens on @port.
static int listener_at(int port)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_in bound = { 0 };
		socklen_t size = sizeof(bound), int_size = sizeof(int);
		int listens = 0;

		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_size) && listens &&
		    !getsockname(fd, (struct sockaddr *)&bound, &size) &&
		    ntohs(bound.sin_port) == port)
			return fd;
	}
	fail_msg("nobody listens on %d", port);
	return -1;
}

TEST(a_broken_listener_is_restarted)
{
	struct error err = { 0 };
	struct rig rig;

	rig_init(&rig);
	rig_open(&rig);
	EXPECT_EQ(0, shutdown(listener_at(rig.port), SHUT_RDWR), "break it");
	await_event(RPC_EVENT_LISTENER_RESTARTED, 1, "restarted");
	expect_honest_call(&rig, "after");
	EXPECT_EQ(0, rpc_server_probe(rig.server, "/test/Echo", 5000, &err), err.text);
	rig_close(&rig);
}

TEST(a_probe_tells_that_no_thread_is_free)
{
	static const uint8_t message[] = { 0, 0, 0, 0, 1, 7 };
	struct http2_client client;
	struct error err = { 0 };
	struct rig rig;

	rig_init(&rig);
	rig_open(&rig);
	EXPECT_EQ(0, rpc_server_probe(rig.server, "/test/Echo", 5000, &err), err.text);
	hold = true;
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	http2_call(&client, "/test/Hold", message, sizeof(message), true);
	http2_call(&client, "/test/Hold", message, sizeof(message), true);
	while (running < 2)
		sleep_ms(1);
	EXPECT_EQ(-ETIME, rpc_server_probe(rig.server, "/test/Echo", 100, &err), err.text);
	hold = false;
	assert_true(http2_await(&client, 2));
	EXPECT_EQ(0, rpc_server_probe(rig.server, "/test/Echo", 5000, &err), err.text);
	http2_close(&client);
	rig_close(&rig);
}

// A gRPC message that inflates to @size zeros.
static size_t make_bomb(uint8_t *bytes, size_t bytes_max, size_t size)
{
	z_stream stream = { .next_out = bytes + 5, .avail_out = (uInt)bytes_max - 5 };
	static uint8_t zeros[1 << 16];

	deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
	while (stream.total_in < size) {
		size_t part = size - stream.total_in;

		stream.next_in = zeros;
		stream.avail_in = (uInt)(part < sizeof(zeros) ? part : sizeof(zeros));
		deflate(&stream, Z_NO_FLUSH);
	}
	deflate(&stream, Z_FINISH);
	deflateEnd(&stream);
	bytes[0] = 1;
	for (int i = 0; i < 4; i++)
		bytes[1 + i] = (uint8_t)(stream.total_out >> (24 - 8 * i));
	return 5 + stream.total_out;
}

static const struct {
	const char *what;
	size_t size;
	int lie; // added to the size that gzip's end says
	int status;
	const char *words;
} bombs[] = {
	{ "small", 1000, 0, RPC_OK, "" },
	{ "exactly the limit", MESSAGE_MAX, 0, RPC_OK, "" },
	{ "above the limit", MESSAGE_MAX + 1, 0, RPC_RESOURCE_EXHAUSTED, "inflates to more than" },
	{ "112 MB", 112 << 20, 0, RPC_RESOURCE_EXHAUSTED, "inflates to more than" },
	{ "112 MB that claim to be small", 112 << 20, 1000 - (112 << 20), RPC_INVALID_ARGUMENT,
	  "damaged" },
	{ "one byte more than it claims", 1000, -1, RPC_INVALID_ARGUMENT, "damaged" },
	{ "one byte less than it claims", 1000, 1, RPC_INVALID_ARGUMENT, "damaged" },
};

TEST(compressed_messages_are_judged_before_inflating)
{
	static uint8_t bytes[256 << 10];
	struct rig rig;

	rig_init(&rig);
	rig_open(&rig);
	for EACH (row, bombs) {
		struct http2_client client;
		size_t size = make_bomb(bytes, sizeof(bytes), row->size);
		uint32_t claimed;

		memcpy(&claimed, bytes + size - 4, 4);
		claimed += (uint32_t)row->lie;
		memcpy(bytes + size - 4, &claimed, 4);
		http2_open(&client, rig.port, "127.0.0.1", 1 << 24);
		http2_call(&client, "/test/Echo", bytes, size, true);
		assert_true(http2_await(&client, 1));
		EXPECT_EQ(row->status, client.status, row->what);
		if (!strstr(client.words, row->words))
			fail_msg("%s: \"%s\"", row->what, client.words);
		http2_close(&client);
	}
	EXPECT_EQ(3, events[RPC_EVENT_MESSAGE_DAMAGED], "counted as damaged");
	EXPECT_EQ(2, events[RPC_EVENT_MESSAGE_TOO_LARGE], "counted as too large");
	rig_close(&rig);
}

TEST(a_message_that_never_fits_is_refused)
{
	static uint8_t message[5 + MESSAGE_MAX] = { 0, 0, 16, 0, 0 };
	struct http2_client client;
	struct rig rig;

	rig_init(&rig);
	budget.bytes_max = MESSAGE_MAX;
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	http2_call(&client, "/test/Echo", message, sizeof(message), true);
	assert_true(http2_await(&client, 1));
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED, client.status, client.words);
	http2_close(&client);
	rig_close(&rig);
	budget.bytes_max = BUDGET;
}

TEST(refuses_messages_without_memory_in_time)
{
	static uint8_t message[5 + 100] = { 0, 0, 0, 0, 100 };
	struct http2_client client;
	struct rig rig;
	size_t held;

	rig_init(&rig);
	rig.limits.queue_ms = 100;
	rig_open(&rig);
	http2_open(&client, rig.port, "127.0.0.1", 65535);
	// Enough is left to receive the message, but not to handle it.
	held = BUDGET - 4096 - 150;
	assert_true(byte_budget_take(&budget, held));
	http2_call(&client, "/test/Echo", message, sizeof(message), true);
	assert_true(http2_await(&client, 1));
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED, client.status, client.words);
	EXPECT_EQ(1, events[RPC_EVENT_HANDLER_LATE], "counted");
	byte_budget_give(&budget, held);

	http2_call(&client, "/test/Echo", message, sizeof(message), true);
	assert_true(http2_await(&client, 2));
	EXPECT_EQ(RPC_OK, client.status, "there is memory again");
	http2_close(&client);
	rig_close(&rig);
}

TEST(an_address_has_half_of_the_memory)
{
	static uint8_t message[5 + MESSAGE_MAX - 1] = { 0, 0, 16, 0, 0 };
	struct http2_client clients[8];
	struct rig rig;

	rig_init(&rig);
	rig_open(&rig);
	for EACH (client, clients) {
		http2_open(client, rig.port, "127.0.0.2", 65535);
		http2_call(client, "/test/Echo", message, sizeof(message), false);
		// The server's windows let the rest go.
		struct timeval wait = { .tv_usec = 300 * 1000 };
		uint8_t bytes[4096];
		ssize_t size;
		setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
		while ((size = recv(client->fd, bytes, sizeof(bytes), 0)) > 0) {
			nghttp2_session_mem_recv(client->session, bytes, (size_t)size);
			http2_flush(client);
		}
	}
	assert_true(events[RPC_EVENT_BUDGET_SPENT] > 0);
	assert_true(budget.bytes_taken <= BUDGET / 2 + BUDGET / 8);
	expect_honest_call(&rig, "another address");
	for EACH (client, clients)
		http2_close(client);
	rig_close(&rig);
}

RUN_TESTS(cmocka_unit_test(stalled_messages_hold_no_thread),
	  cmocka_unit_test(a_late_message_is_refused),
	  cmocka_unit_test(a_refusal_waits_for_the_message),
	  cmocka_unit_test(a_silent_connection_is_closed),
	  cmocka_unit_test(an_unread_answer_is_dropped),
	  cmocka_unit_test(a_client_that_answers_no_ping_is_closed),
	  cmocka_unit_test(a_flood_of_pings_is_closed),
	  cmocka_unit_test(an_old_connection_is_asked_to_leave),
	  cmocka_unit_test(an_address_has_so_many_connections),
	  cmocka_unit_test(full_connections_are_refused_and_not_ready),
	  cmocka_unit_test(accepts_again_after_descriptors_ran_out),
	  cmocka_unit_test(a_broken_listener_is_restarted),
	  cmocka_unit_test(a_probe_tells_that_no_thread_is_free),
	  cmocka_unit_test(compressed_messages_are_judged_before_inflating),
	  cmocka_unit_test(a_message_that_never_fits_is_refused),
	  cmocka_unit_test(refuses_messages_without_memory_in_time),
	  cmocka_unit_test(an_address_has_half_of_the_memory))
