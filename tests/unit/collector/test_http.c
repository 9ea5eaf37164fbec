// SPDX-License-Identifier: Apache-2.0
// The HTTP server over real sockets: answers, refusals, hostile clients, overload, shutting down.
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
#include "collector/http_api.h"
#include "collector/http_listen.h"
#include "collector/http_server.h"
#include "memory_store.h"

enum { ANSWER_BYTES_MAX = 4 << 20, ANSWER_MS_MAX = 20000 };

/** A server over a store that has one service with a recursive function. */
struct fixture {
	struct store *store;
	struct metrics metrics;
	struct http_api api;
	struct http_server *server;
	int port;
};

static void add_function(struct store *store, const char *name, uint32_t number)
{
	struct location location = { .kind = FRAME_KIND_NATIVE };
	struct line line = { 0 };

	location.id = id128_of(name, strlen(name));
	assert_int_equal(0, profile_add_string(store->profile, "/bin/llm", &location.module));
	assert_int_equal(0, profile_add_string(store->profile, name, &line.name));
	assert_int_equal(0, profile_add_location(store->profile, &location, &line, 1, &number));
}

/** main calls work, which calls itself; every 20 ms for 2 s, on two nodes. */
static void fill_store(struct store *store)
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

static void open_fixture(struct fixture *fixture, uint32_t threads)
{
	memset(fixture, 0, sizeof(*fixture));
	fixture->store = memory_store_new(NS_PER_SECOND);
	fill_store(fixture->store);
	fixture->api.store = fixture->store;
	fixture->api.metrics = &fixture->metrics;
	fixture->api.receiver = receiver_new(fixture->store, &fixture->metrics);
	fixture->api.ready = true;

	const struct http_server_options options = {
		.address = "127.0.0.1:0",
		.threads = threads,
		.context = &fixture->api,
		.is_slow = http_api_is_slow,
		.handle = http_api_handle,
		.done = http_api_done,
	};
	struct error err = { 0 };
	if (http_server_open(&options, &fixture->server, &fixture->port, &err))
		fail_msg("%s", err.text);
}

static void close_fixture(struct fixture *fixture)
{
	http_server_close(fixture->server, 2000);
	receiver_free(fixture->api.receiver);
	store_close(fixture->store);
}

static int connect_to(int port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(0, connect(fd, (const struct sockaddr *)&address, sizeof(address)));
	return fd;
}

static void send_text(int fd, const char *text, size_t size)
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
static char *receive_all(int fd, size_t *ret_size)
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

static struct answer ask_raw(const struct fixture *fixture, const char *request, size_t size)
{
	struct answer answer = { 0 };
	int fd = connect_to(fixture->port);
	size_t answer_size;

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

static struct answer ask(const struct fixture *fixture, const char *method, const char *target,
			 const char *headers)
{
	char request[8192];

	int size = snprintf(request, sizeof(request),
			    "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", method,
			    target, headers);
	assert_true(size < (int)sizeof(request));
	return ask_raw(fixture, request, (size_t)size);
}

static bool has_header(const struct answer *answer, const char *line)
{
	return memmem(answer->bytes, (size_t)(answer->body - answer->bytes), line, strlen(line));
}

static json_t *ask_json(const struct fixture *fixture, const char *target)
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

static long long number_at(json_t *json, const char *key)
{
	assert_true(json_is_integer(json_object_get(json, key)));
	return json_integer_value(json_object_get(json, key));
}

#define RANGE "from=1000&to=1002"

TEST(merge_answers_columns_of_a_flame_tree)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/merge?query=llm&" RANGE);
	json_t *nodes = json_object_get(json, "nodes");
	json_t *names = json_object_get(json, "names");
	json_t *name = json_object_get(nodes, "name");

	assert_int_equal(1000000000, number_at(json, "total"));
	assert_int_equal(100, number_at(json, "rows"));
	assert_int_equal(1, number_at(json, "stacks"));
	assert_int_equal(2, number_at(json, "series"));
	assert_int_equal(4, number_at(json, "node_count"));
	assert_int_equal(0, number_at(json, "cut"));
	assert_int_equal(1000000000000, number_at(json, "from_ns"));
	EXPECT_STR("nanoseconds", json_string_value(json_object_get(json, "unit")), "unit");
	static const char *const columns[] = {
		"parent", "name", "module", "kind", "self", "total"
	};
	for EACH (column, columns)
		EXPECT_EQ(4, json_array_size(json_object_get(nodes, *column)), *column);
	static const char *const expected[] = { "total", "main", "work\"?<i>", "work\"?<i>" };
	for (size_t i = 0; i < 4; i++) {
		json_t *text =
			json_array_get(names, (size_t)json_integer_value(json_array_get(name, i)));

		EXPECT_STR(expected[i], json_string_value(text), "name");
	}
	EXPECT_STR("", json_string_value(json_array_get(names, 0)), "name 0");
	json_t *self = json_object_get(nodes, "self");
	assert_int_equal(0, json_integer_value(json_array_get(self, 2)));
	assert_int_equal(1000000000, json_integer_value(json_array_get(self, 3)));
	json_decref(json);

	json = ask_json(&f, "/api/v1/merge?max_nodes=2&" RANGE);
	assert_int_equal(4, number_at(json, "node_count"));
	assert_int_equal(1000000000, number_at(json, "cut"));
	json_decref(json);
	close_fixture(&f);
}

TEST(merge_answers_files)
{
	struct fixture f;

	open_fixture(&f, 2);
	struct answer answer = ask(&f, "GET", "/api/v1/merge?format=collapsed&" RANGE, "");
	assert_int_equal(200, answer.status);
	assert_true(has_header(&answer, "Content-Type: text/plain; charset=utf-8\r\n"));
	assert_true(has_header(&answer, "attachment; filename=\"cairn.collapsed\""));
	assert_non_null(strstr(answer.body, "llm;main;work\""));
	assert_non_null(strstr(answer.body, " 1000000000\n"));
	free(answer.bytes);

	answer = ask(&f, "GET", "/api/v1/merge?format=svg&" RANGE, "");
	assert_true(has_header(&answer, "Content-Type: image/svg+xml\r\n"));
	assert_non_null(strstr(answer.body, "</svg>"));
	free(answer.bytes);

	// gzip already: not compressed a second time, whatever the client accepts.
	answer = ask(&f, "GET", "/api/v1/merge?format=pprof&" RANGE, "Accept-Encoding: gzip\r\n");
	assert_int_equal(200, answer.status);
	assert_int_equal(0x1f, (unsigned char)answer.body[0]);
	assert_int_equal(0x8b, (unsigned char)answer.body[1]);
	free(answer.bytes);
	close_fixture(&f);
}

TEST(top_counts_recursion_once)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/top?" RANGE);
	json_t *rows = json_object_get(json, "rows");

	assert_int_equal(2, number_at(json, "function_count"));
	assert_int_equal(2, json_array_size(rows));
	assert_int_equal(1000000000, number_at(json_array_get(rows, 0), "self"));
	assert_int_equal(1000000000, number_at(json_array_get(rows, 0), "total"));
	assert_int_equal(0, number_at(json_array_get(rows, 1), "self"));
	json_decref(json);

	json = ask_json(&f, "/api/v1/top?limit=1&group_by=node&" RANGE);
	json_t *groups = json_object_get(json, "groups");
	assert_int_equal(2, json_array_size(groups));
	EXPECT_STR("a", json_string_value(json_object_get(json_array_get(groups, 0), "group")),
		   "largest");
	assert_int_equal(750000000, number_at(json_array_get(groups, 0), "total"));
	assert_int_equal(2, number_at(json_array_get(groups, 0), "function_count"));
	assert_int_equal(1, json_array_size(json_object_get(json_array_get(groups, 0), "rows")));
	json_decref(json);
	close_fixture(&f);
}

TEST(series_and_heat_map_sum_over_time)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/series?step=1s&group_by=node&" RANGE);
	json_t *series = json_object_get(json, "series");

	assert_int_equal(1000000000000, number_at(json, "first_step_ns"));
	assert_int_equal(1000000000, number_at(json, "step_ns"));
	assert_int_equal(2, json_array_size(series));
	assert_int_equal(750000000, number_at(json_array_get(series, 0), "total"));
	assert_int_equal(2, json_array_size(json_object_get(json_array_get(series, 0), "values")));
	json_decref(json);

	json = ask_json(&f, "/api/v1/heatmap?" RANGE);
	assert_int_equal(10000000, number_at(json, "value_max"));
	assert_int_equal(20000000, number_at(json, "slot_ns"));
	assert_int_equal(100, json_array_size(json_object_get(json, "values")));
	json_decref(json);
	close_fixture(&f);
}

TEST(names_and_status_are_answered)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/labels?" RANGE);
	assert_int_equal(3, json_array_size(json_object_get(json, "names")));
	json_decref(json);
	json = ask_json(&f, "/api/v1/labels/node/values?query=%7Bnode=~%22b%7Cc%22%7D&" RANGE);
	assert_int_equal(1, json_array_size(json_object_get(json, "values")));
	json_decref(json);
	json = ask_json(&f, "/api/v1/types?" RANGE);
	json_t *type = json_array_get(json_object_get(json, "types"), 0);
	EXPECT_STR(PROFILE_TYPE_CPU, json_string_value(json_object_get(type, "type")), "type");
	EXPECT_STR("process_cpu", json_string_value(json_object_get(type, "name")), "name");
	EXPECT_STR("cpu", json_string_value(json_object_get(type, "sample_type")), "sample");
	json_decref(json);
	json = ask_json(&f, "/api/v1/status");
	assert_int_equal(0, number_at(json, "agents"));
	assert_int_equal(2, number_at(json, "series"));
	assert_int_equal(4711, number_at(json, "stored_bytes"));
	json_decref(json);
	close_fixture(&f);
}

static const struct {
	const char *what;
	const char *target;
	int status;
	const char *code;
	const char *field;
	const char *message; // a part of it
} refused[] = {
	{ "no such path", "/api/v1/nothing", 404, "not_found", "", "openapi.yaml" },
	{ "path above the root", "/../etc/passwd", 404, "not_found", "", "" },
	{ "label without a name", "/api/v1/labels//values", 404, "not_found", "", "" },
	{ "values of two names", "/api/v1/labels/a/b/values", 404, "not_found", "", "" },
	{ "unknown parameter", "/api/v1/merge?form=now-5m", 400, "invalid_argument", "form",
	  "known here: query, type, from, to, max_nodes, group_by, format" },
	{ "parameter of another call", "/api/v1/merge?limit=5", 400, "invalid_argument", "limit",
	  "unknown parameter" },
	{ "given twice", "/api/v1/merge?from=now-5m&from=now-1m", 400, "invalid_argument", "from",
	  "given twice" },
	{ "bad selector", "/api/v1/merge?query=%7Bnode", 400, "invalid_argument", "query",
	  "column 6: expected =" },
	{ "bad time", "/api/v1/merge?from=yesterday", 400, "invalid_argument", "from", "" },
	{ "times in reverse", "/api/v1/merge?from=2000&to=1000", 400, "invalid_argument", "from",
	  "must be before to" },
	{ "empty range", "/api/v1/series?from=1000&to=1000", 400, "invalid_argument", "from",
	  "must be before to" },
	{ "range too long", "/api/v1/top?from=1000&to=10000000", 400, "invalid_argument", "from",
	  "31 days" },
	{ "stacks of a gauge", "/api/v1/merge?type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "/api/v1/series" },
	{ "a gauge as a file", "/api/v1/merge?format=svg&type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "is a gauge" },
	{ "functions of a gauge", "/api/v1/top?type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "is a gauge" },
	{ "heat map of a gauge", "/api/v1/heatmap?type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "heat map" },
	{ "type of one part", "/api/v1/merge?type=cpu", 400, "invalid_argument", "type", "" },
	{ "format", "/api/v1/merge?format=xml", 400, "invalid_argument", "format", "collapsed" },
	{ "no nodes", "/api/v1/merge?max_nodes=0", 400, "invalid_argument", "max_nodes",
	  "from 1 to 1048576" },
	{ "too many nodes", "/api/v1/merge?max_nodes=1048577", 400, "invalid_argument", "max_nodes",
	  "" },
	{ "nodes beyond 64 bits", "/api/v1/merge?max_nodes=99999999999999999999999", 400,
	  "invalid_argument", "max_nodes", "" },
	{ "negative nodes", "/api/v1/merge?max_nodes=-1", 400, "invalid_argument", "max_nodes",
	  "" },
	{ "limit", "/api/v1/top?limit=10001", 400, "invalid_argument", "limit", "1 to 10000" },
	{ "step without a unit", "/api/v1/series?step=5", 400, "invalid_argument", "step",
	  "is not a duration" },
	{ "step too short", "/api/v1/series?step=1ms", 400, "invalid_argument", "step", "10ms" },
	{ "too many steps", "/api/v1/series?step=20ms&from=now-1h", 400, "invalid_argument", "step",
	  "at most 11000 are given; choose at least" },
	{ "too many slots", "/api/v1/heatmap?from=now-1d", 400, "invalid_argument", "slot",
	  "choose at least" },
	{ "label's name", "/api/v1/top?group_by=a-b", 400, "invalid_argument", "group_by", "a-b" },
	{ "label's first letter", "/api/v1/top?group_by=1b", 400, "invalid_argument", "group_by",
	  "" },
	{ "markup in a parameter", "/api/v1/merge?%3Cscript%3E=1", 400, "invalid_argument",
	  "<script>", "unknown parameter \"<script>\"" },
	{ "NUL in a parameter", "/api/v1/merge?query=a%00b", 400, "invalid_argument", "", "NUL" },
	{ "many parameters",
	  "/healthz?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q&r&s&t&u&v&w&x&y&z&A&B&C&D&E&F&G", 400,
	  "invalid_argument", "", "too many" },
};

static const char *text_at(json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

TEST(wrong_requests_name_the_field)
{
	struct fixture f;

	open_fixture(&f, 2);
	for EACH (row, refused) {
		struct answer answer = ask(&f, "GET", row->target, "");
		json_error_t parse_error;
		json_t *json = json_loadb(answer.body, answer.body_size, 0, &parse_error);

		EXPECT_EQ(row->status, answer.status, row->what);
		if (!json)
			fail_msg("%s: %s", row->what, answer.body);
		json_t *error = json_object_get(json, "error");
		EXPECT_STR(row->code, text_at(error, "code"), row->what);
		EXPECT_STR(row->field, text_at(error, "field"), row->what);
		if (!strstr(text_at(error, "message"), row->message))
			fail_msg("%s: \"%s\"", row->what, text_at(error, "message"));
		json_decref(json);
		free(answer.bytes);
	}
	close_fixture(&f);
}

TEST(a_failing_store_is_an_error_not_an_empty_answer)
{
	struct fixture f;

	open_fixture(&f, 2);
	f.store->scan_rc = -EIO;
	struct answer answer = ask(&f, "GET", "/api/v1/merge?" RANGE, "");
	assert_int_equal(500, answer.status);
	assert_non_null(strstr(answer.body, "\"code\":\"internal\""));
	free(answer.bytes);
	f.store->scan_rc = -ENOMEM;
	answer = ask(&f, "GET", "/api/v1/merge?format=svg&" RANGE, "");
	assert_int_equal(503, answer.status);
	assert_true(has_header(&answer, "Retry-After: 5\r\n"));
	free(answer.bytes);
	close_fixture(&f);
}

static void gunzip(const struct answer *answer, char *plain, size_t size)
{
	z_stream stream = { 0 };

	stream.next_in = (Bytef *)answer->body;
	stream.avail_in = (uInt)answer->body_size;
	stream.next_out = (Bytef *)plain;
	stream.avail_out = (uInt)size - 1;
	assert_int_equal(Z_OK, inflateInit2(&stream, 31));
	assert_int_equal(Z_STREAM_END, inflate(&stream, Z_FINISH));
	plain[stream.total_out] = '\0';
	inflateEnd(&stream);
}

TEST(gzip_is_sent_to_those_who_accept_it)
{
	struct fixture f;
	char plain[65536];

	open_fixture(&f, 2);
	struct answer packed =
		ask(&f, "GET", "/api/v1/heatmap?" RANGE, "Accept-Encoding: br, gzip\r\n");
	struct answer bare = ask(&f, "GET", "/api/v1/heatmap?" RANGE, "");
	assert_true(has_header(&packed, "Content-Encoding: gzip\r\n"));
	assert_true(has_header(&packed, "Vary: Accept-Encoding\r\n"));
	assert_true(has_header(&bare, "Vary: Accept-Encoding\r\n"));
	assert_false(has_header(&bare, "Content-Encoding"));
	gunzip(&packed, plain, sizeof(plain));
	EXPECT_STR(bare.body, plain, "unpacked");
	assert_true(packed.body_size < bare.body_size / 2);
	free(packed.bytes);

	struct answer refusing =
		ask(&f, "GET", "/api/v1/heatmap?" RANGE, "Accept-Encoding: gzip;q=0\r\n");
	EXPECT_STR(bare.body, refusing.body, "refused gzip");
	free(refusing.bytes);
	free(bare.bytes);

	packed = ask(&f, "GET", "/api/v1/openapi.yaml", "Accept-Encoding: gzip\r\n");
	bare = ask(&f, "GET", "/api/v1/openapi.yaml", "");
	assert_int_equal(200, packed.status);
	gunzip(&packed, plain, sizeof(plain));
	EXPECT_STR(bare.body, plain, "embedded file");
	free(packed.bytes);
	free(bare.bytes);
	close_fixture(&f);
}

TEST(head_has_the_headers_and_no_body)
{
	static const char *const targets[] = { "/", "/api/v1/merge?" RANGE, "/metrics",
					       "/api/v1/nothing" };
	struct fixture f;

	open_fixture(&f, 2);
	for EACH (target, targets) {
		struct answer get = ask(&f, "GET", *target, "");
		struct answer head = ask(&f, "HEAD", *target, "");
		char length[64];

		EXPECT_EQ(get.status, head.status, *target);
		EXPECT_EQ(0, head.body_size, *target);
		snprintf(length, sizeof(length), "Content-Length: %zu\r\n", get.body_size);
		if (strcmp(*target, "/metrics") != 0 && !has_header(&head, length))
			fail_msg("%s: no %s in %s", *target, length, head.bytes);
		free(get.bytes);
		free(head.bytes);
	}
	close_fixture(&f);
}

TEST(the_page_is_kept_by_its_etag)
{
	struct fixture f;
	char etag[64], header[128];

	open_fixture(&f, 2);
	struct answer answer = ask(&f, "GET", "/?query=llm", "");
	assert_int_equal(200, answer.status);
	assert_true(has_header(&answer, "Content-Type: text/html; charset=utf-8\r\n"));
	assert_int_equal(1, sscanf(strstr(answer.bytes, "ETag: "), "ETag: %63s", etag));
	free(answer.bytes);

	snprintf(header, sizeof(header), "If-None-Match: \"other\", W/%s\r\n", etag);
	answer = ask(&f, "GET", "/", header);
	assert_int_equal(304, answer.status);
	assert_int_equal(0, answer.body_size);
	assert_true(has_header(&answer, etag));
	free(answer.bytes);
	answer = ask(&f, "GET", "/", "If-None-Match: \"other\"\r\n");
	assert_int_equal(200, answer.status);
	free(answer.bytes);
	close_fixture(&f);
}

TEST(answers_tell_browsers_to_trust_nothing_else)
{
	struct fixture f;

	open_fixture(&f, 2);
	struct answer answer = ask(&f, "GET", "/", "");
	assert_true(has_header(&answer, "Content-Security-Policy: default-src 'self';"));
	assert_true(has_header(&answer, "X-Content-Type-Options: nosniff\r\n"));
	assert_false(has_header(&answer, "Access-Control-Allow-Origin"));
	free(answer.bytes);
	answer = ask(&f, "GET", "/api/v1/status", "");
	assert_true(has_header(&answer, "Cache-Control: no-store\r\n"));
	free(answer.bytes);
	close_fixture(&f);
}

static const struct {
	const char *what;
	const char *method;
	const char *headers;
	int status;
} methods[] = {
	{ "post", "POST", "Content-Length: 0\r\n", 405 },
	{ "post with a body", "POST", "Content-Length: 5\r\n\r\nhello", 405 },
	{ "delete", "DELETE", "", 405 },
	{ "options", "OPTIONS", "", 405 },
	{ "made up", "BREW", "", 405 },
	{ "get with a body", "GET", "Content-Length: 5\r\n\r\nhello", 413 },
	{ "get with an endless body", "GET", "Transfer-Encoding: chunked\r\n", 413 },
	{ "get with a huge body", "GET", "Content-Length: 99999999999\r\n", 413 },
};

TEST(only_get_and_head_without_a_body_are_answered)
{
	struct fixture f;

	open_fixture(&f, 2);
	for EACH (row, methods) {
		struct answer answer = ask(&f, row->method, "/api/v1/status", row->headers);

		EXPECT_EQ(row->status, answer.status, row->what);
		if (row->status == 405)
			assert_true(has_header(&answer, "Allow: GET, HEAD\r\n"));
		free(answer.bytes);
	}
	close_fixture(&f);
}

TEST(an_oversized_request_line_is_refused)
{
	struct fixture f;
	size_t size = 100000;
	char *request = malloc(size + 64);

	open_fixture(&f, 2);
	memcpy(request, "GET /", 5);
	memset(request + 5, 'a', size);
	strcpy(request + 5 + size, " HTTP/1.1\r\nHost: x\r\n\r\n");
	struct answer answer = ask_raw(&f, request, strlen(request));
	// Refused, or cut off: in no case answered as if it were fine.
	if (answer.status && answer.status != 414 && answer.status != 431 && answer.status != 413)
		fail_msg("status %d", answer.status);
	free(answer.bytes);

	answer = ask(&f, "GET", "/healthz", "");
	assert_int_equal(200, answer.status);
	free(answer.bytes);
	free(request);
	close_fixture(&f);
}

static const struct {
	const char *what;
	const char *request;
} garbage[] = {
	{ "binary", "\x16\x03\x01\x02\xff\xff\x01\x01\r\n\r\n" },
	{ "no request line", "\r\n\r\n\r\n\r\n" },
	{ "no version", "GET /\r\n\r\n" },
	{ "version 9", "GET / HTTP/9.9\r\nHost: x\r\n\r\n" },
	{ "colons", ":::::::\r\n:::\r\n\r\n" },
	{ "header without a colon", "GET / HTTP/1.1\r\nHost x\r\n\r\n" },
	{ "negative length", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" },
	{ "length and garbage", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: zz\r\n\r\n" },
	{ "only a body", "\xff\xff\xff\xff\xff\xff\xff\xff" },
};

TEST(garbage_does_not_stop_the_server)
{
	struct fixture f;

	open_fixture(&f, 2);
	for EACH (row, garbage) {
		int fd = connect_to(f.port);
		char answer[512];

		send_text(fd, row->request, strlen(row->request));
		shutdown(fd, SHUT_WR);
		while (recv(fd, answer, sizeof(answer), 0) > 0)
			;
		close(fd);
		struct answer healthy = ask(&f, "GET", "/healthz", "");
		EXPECT_EQ(200, healthy.status, row->what);
		free(healthy.bytes);
	}
	close_fixture(&f);
}

static size_t count_words(const char *text, const char *word)
{
	size_t count = 0;

	for (text = strstr(text, word); text; text = strstr(text + 1, word))
		count++;
	return count;
}

TEST(pipelined_requests_are_answered_in_order)
{
	static const char requests[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
				       "GET /api/v1/merge?" RANGE " HTTP/1.1\r\nHost: x\r\n\r\n"
				       "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
				       "\x01garbage after good requests\r\n\r\n";
	struct fixture f;

	open_fixture(&f, 2);
	struct answer answer = ask_raw(&f, requests, sizeof(requests) - 1);
	assert_int_equal(3, count_words(answer.bytes, "HTTP/1.1 200"));
	const char *ok = strstr(answer.bytes, "\r\nok\n");
	const char *tree = strstr(answer.bytes, "\"nodes\":");
	const char *ready = strstr(answer.bytes, "\r\nready\n");
	assert_true(ok && tree && ready && ok < tree && tree < ready);
	free(answer.bytes);
	close_fixture(&f);
}

TEST(a_slow_client_holds_up_nobody)
{
	struct fixture f;
	int slow[40];

	open_fixture(&f, 2);
	for (size_t i = 0; i < 40; i++) {
		slow[i] = connect_to(f.port);
		send_text(slow[i], "GET /healthz HT", 15);
	}
	struct answer answer = ask(&f, "GET", "/api/v1/merge?" RANGE, "");
	assert_int_equal(200, answer.status);
	free(answer.bytes);
	for (size_t i = 0; i < 40; i++)
		close(slow[i]);
	close_fixture(&f);
}

TEST(more_queries_than_fit_are_refused_and_probes_still_answered)
{
	enum { CLIENTS = 12 };
	static const char request[] =
		"GET /api/v1/merge?" RANGE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	struct fixture f;
	int clients[CLIENTS];
	uint32_t good = 0, refusals = 0;

	open_fixture(&f, 1);
	f.store->scan_sleep_ms = 400;
	for (size_t i = 0; i < CLIENTS; i++) {
		clients[i] = connect_to(f.port);
		send_text(clients[i], request, sizeof(request) - 1);
	}
	uint64_t start_ns = clock_monotonic_ns();
	struct answer probe = ask(&f, "GET", "/healthz", "");
	assert_int_equal(200, probe.status);
	assert_true(clock_monotonic_ns() - start_ns < 1500 * NS_PER_MS); // the queries take 2 s
	free(probe.bytes);

	for (size_t i = 0; i < CLIENTS; i++) {
		size_t size;
		char *answer = receive_all(clients[i], &size);

		assert_non_null(answer);
		good += strncmp(answer, "HTTP/1.1 200", 12) == 0;
		if (strncmp(answer, "HTTP/1.1 503", 12) == 0) {
			refusals++;
			assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
			assert_non_null(strstr(answer, "\"overloaded\""));
		}
		free(answer);
		close(clients[i]);
	}
	assert_int_equal(CLIENTS, good + refusals);
	// Four wait and one may run already. On a busy machine clients come late and find room.
	assert_true(good >= 4 && refusals >= 1);
	assert_int_equal(refusals, f.metrics.counters[METRIC_QUERIES_REFUSED]);
	close_fixture(&f);
}

TEST(closing_finishes_the_query_that_runs)
{
	static const char request[] =
		"GET /api/v1/merge?" RANGE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	struct fixture f;
	size_t size;

	open_fixture(&f, 1);
	f.store->scan_sleep_ms = 300;
	int fd = connect_to(f.port);
	send_text(fd, request, sizeof(request) - 1);
	usleep(100000);
	close_fixture(&f);
	char *answer = receive_all(fd, &size);
	assert_non_null(answer);
	assert_int_equal(0, strncmp(answer, "HTTP/1.1 200", 12));
	assert_non_null(strstr(answer, "\"nodes\":"));
	free(answer);
	close(fd);
}

TEST(readiness_is_told_apart_from_life)
{
	struct fixture f;

	open_fixture(&f, 2);
	atomic_store(&f.api.ready, false);
	struct answer answer = ask(&f, "GET", "/readyz", "");
	assert_int_equal(503, answer.status);
	free(answer.bytes);
	answer = ask(&f, "GET", "/healthz", "");
	assert_int_equal(200, answer.status);
	free(answer.bytes);
	answer = ask(&f, "GET", "/api/v1/merge", "");
	assert_int_equal(503, answer.status);
	assert_non_null(strstr(answer.body, "\"unavailable\""));
	free(answer.bytes);
	close_fixture(&f);
}

/** A line of Prometheus text: a comment, or a name with labels and a number. */
static bool metric_line_is_sound(const char *line, size_t size)
{
	char text[256];
	double value;

	if (size == 0 || size >= sizeof(text))
		return false;
	memcpy(text, line, size);
	text[size] = '\0';
	if (strncmp(text, "# HELP ", 7) == 0 || strncmp(text, "# TYPE ", 7) == 0)
		return true;
	char *space = strrchr(text, ' ');
	return (isalpha((unsigned char)*text)) && space && sscanf(space, " %lf", &value) == 1;
}

TEST(metrics_are_prometheus_text)
{
	struct fixture f;

	open_fixture(&f, 2);
	free(ask(&f, "GET", "/api/v1/merge?" RANGE, "").bytes);
	free(ask(&f, "GET", "/api/v1/merge?from=x", "").bytes);
	struct answer answer = ask(&f, "GET", "/metrics", "");
	assert_int_equal(200, answer.status);
	assert_true(has_header(&answer, "Content-Type: text/plain; version=0.0.4"));
	for (const char *line = answer.body; *line;) {
		size_t size = strcspn(line, "\n");

		if (!metric_line_is_sound(line, size))
			fail_msg("%.*s", (int)size, line);
		line += size + 1;
	}
	static const char *const expected[] = {
		"cairn_ingest_batches_total 0\n",
		"cairn_store_rows_appended_total 100\n",
		"cairn_http_responses_total{endpoint=\"/api/v1/merge\",code=\"2xx\"} 1\n",
		"cairn_http_responses_total{endpoint=\"/api/v1/merge\",code=\"4xx\"} 1\n",
		"cairn_http_response_seconds_count{endpoint=\"/api/v1/merge\"} 2\n",
		"process_resident_memory_bytes ",
		"process_cpu_seconds_total ",
		"cairn_build_info{version=",
	};
	for EACH (text, expected) {
		if (!strstr(answer.body, *text))
			fail_msg("no %s in\n%s", *text, answer.body);
	}
	free(answer.bytes);
	close_fixture(&f);
}

static const struct {
	const char *what;
	const char *address;
	int rc;
	const char *text;
} addresses[] = {
	{ "any port", "127.0.0.1:0", 0, "" },
	{ "name", "localhost:0", 0, "" },
	{ "all", ":0", 0, "" },
	{ "no port", "127.0.0.1", -EINVAL, "is not an address; write" },
	{ "empty port", "127.0.0.1:", -EINVAL, "is not an address" },
	{ "empty", "", -EINVAL, "is not an address" },
	{ "port in words", "127.0.0.1:http", -EINVAL, "is not an address" },
	{ "long port", "127.0.0.1:123456", -EINVAL, "is not an address" },
	{ "port past 65535", "127.0.0.1:99999", -EINVAL, "is not an address" },
	{ "IPv6 without brackets", "::1:80", -EINVAL, "is not an address" },
	{ "not ours", "192.0.2.1:0", -EADDRNOTAVAIL, "--http" },
};

TEST(addresses_are_listened_on_or_refused)
{
	for EACH (row, addresses) {
		struct error err = { 0 };
		int fd = -1, port = 0;

		EXPECT_EQ(row->rc, http_listen(row->address, "http", &fd, &port, &err), row->what);
		if (!strstr(err.text, row->text))
			fail_msg("%s: %s", row->what, err.text);
		if (fd >= 0) {
			assert_true(port > 0);
			close(fd);
		}
	}
}

TEST(a_busy_port_is_told_with_the_remedy)
{
	char address[32];
	struct error err;
	int first = -1, second = -1, port;

	assert_int_equal(0, http_listen("127.0.0.1:0", "http", &first, &port, &err));
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	assert_int_equal(-EADDRINUSE, http_listen(address, "http", &second, &port, &err));
	assert_non_null(strstr(err.text, "in use by another program"));
	assert_non_null(strstr(err.text, "--http"));
	close(first);
}

RUN_TESTS(cmocka_unit_test(merge_answers_columns_of_a_flame_tree),
	  cmocka_unit_test(merge_answers_files), cmocka_unit_test(top_counts_recursion_once),
	  cmocka_unit_test(series_and_heat_map_sum_over_time),
	  cmocka_unit_test(names_and_status_are_answered),
	  cmocka_unit_test(wrong_requests_name_the_field),
	  cmocka_unit_test(a_failing_store_is_an_error_not_an_empty_answer),
	  cmocka_unit_test(gzip_is_sent_to_those_who_accept_it),
	  cmocka_unit_test(head_has_the_headers_and_no_body),
	  cmocka_unit_test(the_page_is_kept_by_its_etag),
	  cmocka_unit_test(answers_tell_browsers_to_trust_nothing_else),
	  cmocka_unit_test(only_get_and_head_without_a_body_are_answered),
	  cmocka_unit_test(an_oversized_request_line_is_refused),
	  cmocka_unit_test(garbage_does_not_stop_the_server),
	  cmocka_unit_test(pipelined_requests_are_answered_in_order),
	  cmocka_unit_test(a_slow_client_holds_up_nobody),
	  cmocka_unit_test(more_queries_than_fit_are_refused_and_probes_still_answered),
	  cmocka_unit_test(closing_finishes_the_query_that_runs),
	  cmocka_unit_test(readiness_is_told_apart_from_life),
	  cmocka_unit_test(metrics_are_prometheus_text),
	  cmocka_unit_test(addresses_are_listened_on_or_refused),
	  cmocka_unit_test(a_busy_port_is_told_with_the_remedy))
