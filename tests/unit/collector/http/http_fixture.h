// SPDX-License-Identifier: Apache-2.0
// What tests of the HTTP API share: a server over a small store, and questions to it over a socket.
#pragma once

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"

#include <jansson.h>
#include <zlib.h>

#include "base/clock.h"
#include "collector/http/http_api.h"
#include "base/http/http_listen.h"
#include "collector/http/http_server.h"
#include "tests/unit/collector/store/memory_store.h"

enum { ANSWER_BYTES_MAX = 4 << 20, ANSWER_MS_MAX = 20000 };

/** A server over a store that has one service with a recursive function. */
struct fixture {
	struct store *store;
	struct metrics metrics;
	struct http_api api;
	struct http_guard guard;
	struct byte_budget bodies; // of pushes
	struct http_server *server;
	int port;
};

static inline void add_function(struct store *store, const char *name, uint32_t number)
{
	struct location location = { .kind = FRAME_KIND_NATIVE };
	struct line line = { 0 };

	location.id = id128_of(name, strlen(name));
	assert_int_equal(0, profile_add_string(store->profile, "/bin/llm", &location.module));
	assert_int_equal(0, profile_add_string(store->profile, name, &line.name));
	assert_int_equal(0, profile_add_location(store->profile, &location, &line, 1, &number));
}

/** main calls work, which calls itself; every 20 ms for 2 s, on two nodes. */
static inline void fill_store(struct store *store)
{
	add_function(store, "main", 0);
	add_function(store, "work\"\xff<i>", 1); // needs care in JSON; the profile makes it UTF-8
	for (uint32_t node = 0; node < 2; node++) {
		struct labels labels = { 0 };

		assert_int_equal(0, labels_set(&labels, "service", "llm"));
		assert_int_equal(0, labels_set(&labels, "process", "llm"));
		assert_int_equal(0, labels_set(&labels, "node", node ? "b" : "a"));
		memory_store_add_series(store, &labels, PROFILE_TYPE_CPU);
		labels_deinit(&labels);
	}
	for (uint32_t i = 0; i < 100; i++) {
		struct memory_sample sample = {
			.series = i % 4 == 0,
			.slot_ns = 20000000,
			.time_ns = 1000 * NS_PER_SECOND + i * 20000000ULL,
			.locations = { 1, 1, 0 },
			.location_count = 3,
			.value = 10000000,
		};
		memory_store_add(store, &sample);
	}
}

static inline void open_fixture(struct fixture *fixture, uint32_t threads)
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->store = memory_store_new(NS_PER_SECOND);
	fill_store(fixture->store);
	fixture->api.store = fixture->store;
	fixture->api.metrics = &fixture->metrics;
	fixture->api.receiver = receiver_new(fixture->store, &fixture->metrics, NULL);
	assert_non_null(fixture->api.receiver);
	fixture->api.ready = true;
	fixture->bodies.bytes_max = 256 << 20;
	fixture->api.doors = (struct doors){ .store = fixture->store,
					     .metrics = &fixture->metrics,
					     .budget = &fixture->bodies };

	assert_int_equal(0, http_guard_init(&fixture->guard, "127.0.0.1:0", "x", NULL));
	const struct http_server_options options = {
		.address = "127.0.0.1:0",
		.threads = threads,
		.guard = &fixture->guard,
		.context = &fixture->api,
		.is_slow = http_api_is_slow,
		.admit = http_api_admit,
		.handle = http_api_handle,
		.body_max = http_api_body_max,
		.bodies = &fixture->bodies,
		.done = http_api_done,
		.limited = http_api_limited,
	};
	struct error err = { 0 };
	if (http_server_open(&options, &fixture->server, &fixture->port, &err))
		fail_msg("%s", err.text);
}

static inline void close_fixture(struct fixture *fixture)
{
	http_server_close(fixture->server, 2000);
	http_guard_deinit(&fixture->guard);
	receiver_free(fixture->api.receiver);
	store_close(fixture->store);
}

/** From the loopback address @from. */
static inline int connect_from(uint32_t from, int port)
{
	const struct sockaddr_in source = { .sin_family = AF_INET, .sin_addr = { htonl(from) } };
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(0, bind(fd, (const struct sockaddr *)&source, sizeof(source)));
	assert_int_equal(0, connect(fd, (const struct sockaddr *)&address, sizeof(address)));
	return fd;
}

static inline int connect_to(int port)
{
	return connect_from(INADDR_LOOPBACK, port);
}

static inline void send_text(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);

		if (sent < 0)
			return; // the server closed: the test looks at what it answered
		text += sent;
		size -= (size_t)sent;
	}
}

/** All bytes until the server closes, or NULL if it does not. The caller frees. */
static inline char *receive_all(int fd, size_t *ret_size)
{
	char *answer = malloc(ANSWER_BYTES_MAX + 1);
	size_t size = 0;

	for (;;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		if (poll(&ready, 1, ANSWER_MS_MAX) != 1) {
			free(answer);
			return NULL;
		}
		ssize_t got = recv(fd, answer + size, ANSWER_BYTES_MAX - size, 0);
		if (got <= 0)
			break;
		size += (size_t)got;
	}
	answer[size] = '\0';
	*ret_size = size;
	return answer;
}

/** An answer taken apart. */
struct answer {
	char *bytes;
	int status;
	char *body;
	size_t body_size;
};

static inline struct answer ask_raw(const struct fixture *fixture, const char *request, size_t size)
{
	struct answer answer = { 0 };
	int fd = connect_to(fixture->port);
	size_t answer_size = 0;

	send_text(fd, request, size);
	answer.bytes = receive_all(fd, &answer_size);
	close(fd);
	if (!answer.bytes)
		fail_msg("no answer, or the connection stays open");
	if (sscanf(answer.bytes, "HTTP/1.1 %d", &answer.status) != 1)
		return answer;
	char *end = strstr(answer.bytes, "\r\n\r\n");
	assert_non_null(end);
	answer.body = end + 4;
	answer.body_size = answer_size - (size_t)(answer.body - answer.bytes);
	return answer;
}

static inline struct answer ask(const struct fixture *fixture, const char *method,
				const char *target, const char *headers)
{
	char request[8192];

	int size = snprintf(
		request, sizeof(request),
		"%s %s HTTP/1.1\r\nHost: x\r\nCairn-Client: test\r\nConnection: close\r\n%s\r\n",
		method, target, headers);
	assert_true(size < (int)sizeof(request));
	return ask_raw(fixture, request, (size_t)size);
}

static inline bool has_header(const struct answer *answer, const char *line)
{
	return memmem(answer->bytes, (size_t)(answer->body - answer->bytes), line, strlen(line));
}

static inline json_t *ask_json(const struct fixture *fixture, const char *target)
{
	struct answer answer = ask(fixture, "GET", target, "");
	json_error_t error;

	if (answer.status != 200)
		fail_msg("%s: %s", target, answer.bytes);
	assert_true(has_header(&answer, "Content-Type: application/json\r\n"));
	json_t *json = json_loadb(answer.body, answer.body_size, JSON_ALLOW_NUL, &error);
	if (!json)
		fail_msg("%s: %s: %s", target, error.text, answer.body);
	free(answer.bytes);
	return json;
}

static inline long long number_at(json_t *json, const char *key)
{
	assert_true(json_is_integer(json_object_get(json, key)));
	return json_integer_value(json_object_get(json, key));
}

#define RANGE "from=1000&to=1002"
