// SPDX-License-Identifier: Apache-2.0
// Clients that send and read as slowly as they please, and what they may hold meanwhile.
#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sanitized.h"
#include "collector/http/http_server.h"

// More than the kernel keeps of an answer.
enum { BODY_BYTES = 8 << 20, BUDGET = 40 << 20 };

static atomic_uint limits[HTTP_LIMITS];
static struct byte_budget answers = { .bytes_max = BUDGET };

static bool is_slow(void *context, const struct http_request *request)
{
	(void)context;
	return !strcmp(request->path, "/big");
}

static void handle(void *context, const struct http_request *request,
		   struct http_response *response)
{
	(void)context;
	response->media_type = "text/plain";
	if (is_slow(NULL, request)) {
		void *room = buffer_extend(&response->body, BODY_BYTES);

		if (room)
			memset(room, 'x', BODY_BYTES);
	} else {
		buffer_append_string(&response->body, "small\n");
	}
}

static void count(void *context, enum http_limit limit)
{
	(void)context;
	limits[limit]++;
}

static struct http_server *open_server(uint32_t request_ms, uint32_t transfer_ms, int *ret_port)
{
	const struct http_server_options options = {
		.address = "127.0.0.1:0",
		.threads = 1,
		.answers = &answers,
		.request_ms = request_ms,
		.transfer_ms = transfer_ms,
		.transfer_bytes_per_second = 1 << 30,
		.is_slow = is_slow,
		.handle = handle,
		.limited = count,
	};
	struct http_server *server = NULL;
	struct error err = { 0 };

	limits[0] = limits[1] = 0;
	EXPECT_EQ(0, http_server_open(&options, &server, ret_port, &err), err.text);
	return server;
}

// With a small window, so that the server cannot get rid of an answer.
static int connect_to(int port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int small = 4096;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	EXPECT_EQ(0, connect(fd, (const struct sockaddr *)&address, sizeof(address)), "connect");
	return fd;
}

static void send_text(int fd, const char *text)
{
	EXPECT_EQ(strlen(text), send(fd, text, strlen(text), MSG_NOSIGNAL), "send");
}

static int ask(int port, const char *path)
{
	char request[128];
	int fd = connect_to(port);

	snprintf(request, sizeof(request),
		 "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	send_text(fd, request);
	return fd;
}

// Read all; returns the status, 0 if there is no whole answer.
static int read_answer(int fd)
{
	static char bytes[BODY_BYTES + 4096];
	size_t size = 0;
	ssize_t got;
	int status = 0;

	while ((got = recv(fd, bytes + size, sizeof(bytes) - 1 - size, 0)) > 0)
		size += (size_t)got;
	close(fd);
	bytes[size] = 0;
	return sscanf(bytes, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static void await_count(const atomic_uint *counter, unsigned int wanted, int trickle_fd)
{
	uint64_t until_ns = clock_monotonic_ns() + 20 * NS_PER_SECOND;
	char byte;

	while (*counter < wanted && clock_monotonic_ns() < until_ns) {
		// Never quiet for long.
		if (trickle_fd >= 0)
			recv(trickle_fd, &byte, 1, MSG_DONTWAIT);
		usleep(20000);
	}
	EXPECT_EQ(wanted, *counter, "counted");
}

static void await_no_answer(void)
{
	uint64_t until_ns = clock_monotonic_ns() + 20 * NS_PER_SECOND;

	while (answers.bytes_taken && clock_monotonic_ns() < until_ns)
		usleep(5000);
	EXPECT_EQ(0, answers.bytes_taken, "given back");
}

TEST(a_slow_reader_loses_its_answer)
{
	int port;
	struct http_server *server = open_server(0, 50, &port);
	int fd = ask(port, "/big");

	await_count(&limits[HTTP_LIMIT_LATE], 1, fd);
	await_no_answer();
	close(fd);
	EXPECT_EQ(200, read_answer(ask(port, "/small")), "others");
	http_server_close(server, 1000);
}

TEST(a_slow_sender_is_closed)
{
	int port;
	struct http_server *server = open_server(50, 0, &port);
	int fd = connect_to(port);

	send_text(fd, "GET /small HT");
	await_count(&limits[HTTP_LIMIT_LATE], 1, -1);
	EXPECT_EQ(0, read_answer(fd), "no answer");
	http_server_close(server, 1000);
}

TEST(a_kept_connection_may_ask_again)
{
	int port;
	struct http_server *server = open_server(5000, 0, &port);
	_cleanup_close_ int fd = connect_to(port);
	char bytes[4096];

	for (int i = 0; i < 3; i++) {
		send_text(fd, "GET /small HTTP/1.1\r\nHost: x\r\n\r\n");
		assert_true(recv(fd, bytes, sizeof(bytes), 0) > 0);
	}
	EXPECT_EQ(0, limits[HTTP_LIMIT_LATE], "not late");
	http_server_close(server, 1000);
}

TEST(answers_above_the_budget_are_refused)
{
	int port, held[2];
	struct http_server *server = open_server(0, 0, &port);

	// Two bodies fit, whose buffers are twice as large, and are not read.
	for EACH (fd, held) {
		size_t before = answers.bytes_taken;

		*fd = ask(port, "/big");
		for (int i = 0; i < 20000 && answers.bytes_taken < before + BODY_BYTES; i++)
			usleep(1000);
	}
	EXPECT_EQ(503, read_answer(ask(port, "/big")), "the third");
	EXPECT_EQ(1, limits[HTTP_LIMIT_ANSWERS], "counted");
	for EACH (fd, held)
		close(*fd);
	await_no_answer();
	EXPECT_EQ(200, read_answer(ask(port, "/big")), "when they are gone");
	await_no_answer();
	http_server_close(server, 1000);
}

static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	size_t all = 0, resident = 0;

	assert_non_null(file);
	assert_int_equal(2, fscanf(file, "%zu %zu", &all, &resident));
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(slow_readers_hold_the_budget_at_most)
{
	enum { READERS = 24 };
	int port, readers[READERS], answered = 0, refused = 0;
	struct http_server *server = open_server(0, 1000, &port);
	size_t begin = resident_bytes(), most = 0, taken = 0;
	uint64_t until_ns = clock_monotonic_ns() + 20 * NS_PER_SECOND;
	char byte;

	for EACH (fd, readers)
		*fd = ask(port, "/big");
	// Who reads a byte now and then is ended all the same.
	while (clock_monotonic_ns() < until_ns &&
	       (!limits[HTTP_LIMIT_LATE] || answers.bytes_taken)) {
		size_t resident = resident_bytes();

		most = resident > most ? resident : most;
		taken = answers.bytes_taken > taken ? answers.bytes_taken : taken;
		for EACH (fd, readers)
			recv(*fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
		usleep(2000);
	}
	assert_true(taken > BODY_BYTES && taken <= BUDGET);
	assert_true(IS_SANITIZED || most - begin < BUDGET + (BUDGET >> 2));
	await_no_answer();
	for EACH (fd, readers) { // of a late answer the begin
		int status = read_answer(*fd);

		answered += status == 200;
		refused += status == 503;
	}
	EXPECT_EQ(READERS, answered + refused, "each got an answer, or was refused");
	EXPECT_EQ(answered, limits[HTTP_LIMIT_LATE], "and ended when it did not read it");
	assert_true(answered > 0 && refused > 0);
	EXPECT_EQ(200, read_answer(ask(port, "/small")), "others");
	http_server_close(server, 1000);
}

RUN_TESTS(cmocka_unit_test(a_slow_reader_loses_its_answer),
	  cmocka_unit_test(a_slow_sender_is_closed),
	  cmocka_unit_test(a_kept_connection_may_ask_again),
	  cmocka_unit_test(answers_above_the_budget_are_refused),
	  cmocka_unit_test(slow_readers_hold_the_budget_at_most))
