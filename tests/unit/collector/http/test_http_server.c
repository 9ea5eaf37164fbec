// SPDX-License-Identifier: Apache-2.0
// The HTTP server: hostile, slow and many clients, addresses, its end.
#include "tests/unit/collector/http/http_fixture.h"
#include "tests/unit/collector/http/waiting.h"

#include "collector/store/deadline.h"

TEST(refuses_an_oversized_request_line)
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

TEST(survives_garbage)
{
	static const struct timeval patience = { .tv_sec = 1 };
	struct fixture f;

	open_fixture(&f, 2);
	for EACH (row, garbage) {
		int fd = connect_to(f.port);
		char answer[512];

		// Some it takes for a beginning: their rest is waited for.
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
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

TEST(answers_pipelined_requests_in_order)
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

TEST(a_slow_client_delays_no_other)
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

/* Does the server answer, and not close the connection? */
static bool is_served(const struct fixture *fixture, uint32_t from)
{
	static const char request[] =
		"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	_cleanup_close_ int fd = connect_from(from, fixture->port);
	char byte;

	return send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0 &&
	       recv(fd, &byte, 1, 0) == 1;
}

TEST(one_peer_leaves_connections_for_others)
{
	enum { WAIT_MS = 60000 };
	struct fixture f;
	int taken[HTTP_CONNECTIONS_PER_PEER_MAX];

	open_fixture(&f, 2);
	for EACH (fd, taken)
		*fd = connect_to(f.port);
	for (int waited = 0; is_served(&f, INADDR_LOOPBACK) && waited < WAIT_MS; waited++)
		usleep(1000); // until all are accepted
	assert_false(is_served(&f, INADDR_LOOPBACK));
	assert_true(f.metrics.counters[METRIC_HTTP_PEER_FULL] >= 1);
	assert_true(is_served(&f, INADDR_LOOPBACK + 1));

	close(taken[0]);
	bool is_free = false;
	for (int waited = 0; !is_free && waited < WAIT_MS; waited++) {
		usleep(1000);
		is_free = is_served(&f, INADDR_LOOPBACK);
	}
	assert_true(is_free);
	for EACH (fd, taken)
		close(*fd);
	close_fixture(&f);
}

TEST(answers_probes_while_it_refuses_queries)
{
	enum { CLIENTS = 12, TAKEN = 1 + HTTP_QUEUED_OF_PEER_MAX, WAIT_MS = 60000 };
	static const char request[] =
		"GET /api/v1/merge?" RANGE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	struct fixture f;
	int clients[CLIENTS];
	uint32_t good = 0, refusals = 0;

	open_fixture(&f, 1);
	f.store->scans_held = true;
	for (size_t i = 0; i < CLIENTS; i++) {
		clients[i] = connect_to(f.port);
		send_text(clients[i], request, sizeof(request) - 1);
		for (int waited = 0; !f.store->scans && waited < WAIT_MS; waited++)
			usleep(1000); // one runs before the others come
		assert_true(f.store->scans);
	}
	for (int waited = 0; waited < WAIT_MS; waited++) {
		if (f.metrics.counters[METRIC_QUERIES_REFUSED] == CLIENTS - TAKEN)
			break;
		usleep(1000);
	}
	struct answer probe = ask(&f, "GET", "/healthz", "");
	assert_int_equal(200, probe.status);
	free(probe.bytes);
	f.store->scans_held = false;

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
	assert_int_equal(TAKEN, good); // one runs, the others wait
	assert_int_equal(CLIENTS - TAKEN, refusals);
	assert_int_equal(refusals, f.metrics.counters[METRIC_QUERIES_REFUSED]);
	close_fixture(&f);
}

TEST(closing_finishes_running_queries)
{
	static const char request[] =
		"GET /api/v1/merge?" RANGE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	struct fixture f;
	size_t size;

	open_fixture(&f, 1);
	f.store->scan_sleep_ms = 300;
	int fd = connect_to(f.port);
	send_text(fd, request, sizeof(request) - 1);
	WAIT_WHILE(!f.store->scans);
	close_fixture(&f);
	char *answer = receive_all(fd, &size);
	assert_non_null(answer);
	assert_int_equal(0, strncmp(answer, "HTTP/1.1 200", 12));
	assert_non_null(strstr(answer, "\"nodes\":"));
	free(answer);
	close(fd);
}

/** The status of a request with these headers. */
static int ask_with(const struct fixture *f, const char *method, const char *headers)
{
	char request[512];

	snprintf(request, sizeof(request),
		 "%s /api/v1/labels HTTP/1.1\r\nConnection: close\r\n%s\r\n", method, headers);
	struct answer answer = ask_raw(f, request, strlen(request));
	int status = answer.status;
	if (status == 421)
		assert_non_null(strstr(answer.body, "--http-host"));
	free(answer.bytes);
	return status;
}

TEST(refuses_requests_of_foreign_pages)
{
	struct fixture f;

	open_fixture(&f, 2);
	EXPECT_EQ(200, ask_with(&f, "GET", "Host: localhost:7070\r\n"), "ours");
	EXPECT_EQ(421, ask_with(&f, "GET", "Host: evil.example\r\n"), "rebound");
	EXPECT_EQ(403, ask_with(&f, "GET", "Host: x\r\nOrigin: http://evil.example\r\n"), "origin");
	EXPECT_EQ(403, ask_with(&f, "GET", "Host: x\r\nSec-Fetch-Site: cross-site\r\n"), "script");
	EXPECT_EQ(403, ask_with(&f, "PUT", "Host: x\r\nContent-Length: 0\r\n"), "no header");
	EXPECT_EQ(403, ask_with(&f, "POST", "Host: x\r\nContent-Length: 0\r\n"), "no header");
	EXPECT_EQ(5, f.metrics.counters[METRIC_REQUESTS_FOREIGN], "counted");
	close_fixture(&f);
}

TEST(ends_queries_of_clients_that_went_away)
{
	static const char request[] =
		"GET /api/v1/merge?" RANGE " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	enum { TAKEN = 1 + HTTP_QUEUED_OF_PEER_MAX };
	struct fixture f;
	int clients[TAKEN + 1];

	open_fixture(&f, 1);
	f.store->scans_held = true;
	for (size_t i = 0; i <= TAKEN; i++) {
		clients[i] = connect_to(f.port);
		send_text(clients[i], request, sizeof(request) - 1);
		WAIT_WHILE(!f.store->scans);
	}
	WAIT_WHILE(!f.metrics.counters[METRIC_QUERIES_REFUSED]); // one runs, the others are queued
	for (size_t i = 0; i <= TAKEN; i++)
		close(clients[i]);
	usleep(2 * DEADLINE_POLL_NS / 1000); // it has just looked
	f.store->scans_held = false;
	WAIT_WHILE(f.metrics.counters[METRIC_QUERIES_ABANDONED] < TAKEN);
	EXPECT_EQ(1, f.store->scans, "scans: queued ones never began");
	close_fixture(&f);
}

TEST(readiness_differs_from_liveness)
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

TEST(listens_on_valid_addresses_only)
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

TEST(a_busy_port_is_an_error_with_remedy)
{
	char address[32];
	struct error err;
	int first = -1, second = -1, port;

	assert_int_equal(0, http_listen("127.0.0.1:0", "http", &first, &port, &err));
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	assert_int_equal(-EADDRINUSE, http_listen(address, "http", &second, &port, &err));
	assert_non_null(strstr(err.text, "in use by another process"));
	assert_non_null(strstr(err.text, "--http"));
	close(first);
}

RUN_TESTS(cmocka_unit_test(refuses_an_oversized_request_line), cmocka_unit_test(survives_garbage),
	  cmocka_unit_test(answers_pipelined_requests_in_order),
	  cmocka_unit_test(a_slow_client_delays_no_other),
	  cmocka_unit_test(one_peer_leaves_connections_for_others),
	  cmocka_unit_test(answers_probes_while_it_refuses_queries),
	  cmocka_unit_test(closing_finishes_running_queries),
	  cmocka_unit_test(refuses_requests_of_foreign_pages),
	  cmocka_unit_test(ends_queries_of_clients_that_went_away),
	  cmocka_unit_test(readiness_differs_from_liveness),
	  cmocka_unit_test(listens_on_valid_addresses_only),
	  cmocka_unit_test(a_busy_port_is_an_error_with_remedy))
