// SPDX-License-Identifier: Apache-2.0
// Real requests; a thread stands for the main loop.

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/admin/admin_server.h"
#include "base/http/http_listen.h"

enum { ANSWER_BYTES = 8192, POLL_MS = 20 };

struct fixture {
	struct admin_server *server;
	int port;
	pthread_t loop;
	atomic_bool stops, hangs;
	atomic_int reports;
	_Atomic(const char *) not_ready;
};

static void *run_loop(void *context)
{
	struct fixture *fixture = context;
	struct pollfd wanted = { .fd = admin_server_fd(fixture->server), .events = POLLIN };

	while (!fixture->stops) {
		const char metrics[] = "cairn_agent_samples_total 7\n";
		struct admin_report report = { metrics, sizeof(metrics) - 1, fixture->not_ready };

		if (fixture->hangs || poll(&wanted, 1, POLL_MS) <= 0)
			continue;
		fixture->reports++;
		admin_server_report(fixture->server, &report);
	}
	return NULL;
}

static void begin(struct fixture *fixture)
{
	struct error err = { 0 };
	int fd;

	*fixture = (struct fixture){ .port = -1 };
	if (http_listen("127.0.0.1:0", "admin", &fd, &fixture->port, &err) ||
	    admin_server_open("127.0.0.1:0", fd, &fixture->server, &err))
		fail_msg("%s", err.text);
	assert_int_equal(0, pthread_create(&fixture->loop, NULL, run_loop, fixture));
}

static void finish(struct fixture *fixture)
{
	fixture->stops = true;
	pthread_join(fixture->loop, NULL);
	admin_server_close(fixture->server);
}

static int connect_to(const struct fixture *fixture)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)fixture->port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
	return fd;
}

/* Status of the answer to a request with these headers; 0: the connection was closed without one. */
static int ask(const struct fixture *fixture, const char *head, char answer[ANSWER_BYTES])
{
	char request[1024];
	int fd = connect_to(fixture), status = 0;
	size_t size = 0;
	ssize_t more;

	snprintf(request, sizeof(request), "%s\r\nConnection: close\r\n\r\n", head);
	send(fd, request, strlen(request), MSG_NOSIGNAL); // it may have been closed
	while ((more = read(fd, answer + size, ANSWER_BYTES - 1 - size)) > 0)
		size += (size_t)more;
	answer[size] = '\0';
	close(fd);
	sscanf(answer, "HTTP/1.1 %d", &status);
	return status;
}

#define HOST "\r\nHost: 127.0.0.1"

TEST(answers_from_the_main_loops_report)
{
	static const struct {
		const char *head;
		int status;
		const char *text;
	} rows[] = {
		{ "GET /healthz HTTP/1.1" HOST, 200, "\r\n\r\nok\n" },
		{ "GET /readyz HTTP/1.1" HOST, 200, "\r\n\r\nok\n" },
		{ "GET /metrics HTTP/1.1" HOST, 200, "cairn_agent_samples_total 7\n" },
		{ "HEAD /metrics HTTP/1.1" HOST, 200, "text/plain; version=0.0.4" },
		{ "GET /metrics?x=1 HTTP/1.1" HOST, 200, "cairn_agent_samples_total 7\n" },
		{ "GET / HTTP/1.1" HOST, 404, "/metrics, /healthz and /readyz" },
		{ "GET /metrics/ HTTP/1.1" HOST, 404, "no such path" },
		{ "POST /metrics HTTP/1.1" HOST "\r\nContent-Length: 0", 405, "Allow: GET, HEAD" },
		{ "GET /metrics HTTP/1.1\r\nHost: evil.example", 421, "evil.example" },
		{ "GET /metrics HTTP/1.1" HOST "\r\nOrigin: http://evil.example", 403, "" },
		{ "GET /metrics HTTP/1.1" HOST "\r\nSec-Fetch-Site: cross-site", 403, "" },
	};
	struct fixture fixture;
	char answer[ANSWER_BYTES];

	begin(&fixture);
	for EACH (row, rows) {
		EXPECT_EQ(row->status, ask(&fixture, row->head, answer), row->head);
		if (!strstr(answer, row->text))
			fail_msg("%s: \"%s\" is not in: %s", row->head, row->text, answer);
	}
	finish(&fixture);
}

TEST(says_why_it_is_not_ready)
{
	struct fixture fixture;
	char answer[ANSWER_BYTES];

	begin(&fixture);
	fixture.not_ready = "no batch has reached the collector";
	EXPECT_EQ(503, ask(&fixture, "GET /readyz HTTP/1.1" HOST, answer), "status");
	assert_non_null(strstr(answer, "no batch has reached the collector\n"));
	EXPECT_EQ(200, ask(&fixture, "GET /healthz HTTP/1.1" HOST, answer), "it lives");
	finish(&fixture);
}

TEST(asks_the_main_loop_once_a_second)
{
	struct fixture fixture;
	char answer[ANSWER_BYTES];

	begin(&fixture);
	uint64_t begin_ns = clock_monotonic_ns();
	for (int i = 0; i < 50; i++)
		EXPECT_EQ(200, ask(&fixture, "GET /metrics HTTP/1.1" HOST, answer), "status");
	uint64_t seconds = (clock_monotonic_ns() - begin_ns) / ADMIN_REPORT_NS_MIN;
	assert_true((uint64_t)fixture.reports <= seconds + 1);
	finish(&fixture);
}

TEST(a_main_loop_that_hangs_is_not_healthy)
{
	struct fixture fixture;
	char answer[ANSWER_BYTES];

	begin(&fixture);
	fixture.hangs = true;
	usleep(2 * POLL_MS * 1000);
	EXPECT_EQ(503, ask(&fixture, "GET /healthz HTTP/1.1" HOST, answer), "while it hangs");
	assert_non_null(strstr(answer, "main loop did not answer"));
	fixture.hangs = false;
	EXPECT_EQ(200, ask(&fixture, "GET /healthz HTTP/1.1" HOST, answer), "after it");
	finish(&fixture);
}

TEST(idle_connections_do_not_keep_others_out)
{
	int fds[ADMIN_CONNECTIONS_MAX + 4];
	struct fixture fixture;
	char answer[ANSWER_BYTES];
	uint64_t begin_ns;
	int status = 0;

	begin(&fixture);
	for EACH (fd, fds)
		*fd = connect_to(&fixture);
	begin_ns = clock_monotonic_ns();
	while (status != 200 &&
	       clock_monotonic_ns() - begin_ns < 3 * ADMIN_IDLE_S_MAX * NS_PER_SECOND) {
		status = ask(&fixture, "GET /healthz HTTP/1.1" HOST, answer);
		usleep(POLL_MS * 1000);
	}
	EXPECT_EQ(200, status, "after they have been closed");
	for EACH (fd, fds)
		close(*fd);
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(answers_from_the_main_loops_report),
	  cmocka_unit_test(says_why_it_is_not_ready),
	  cmocka_unit_test(asks_the_main_loop_once_a_second),
	  cmocka_unit_test(a_main_loop_that_hangs_is_not_healthy),
	  cmocka_unit_test(idle_connections_do_not_keep_others_out))
