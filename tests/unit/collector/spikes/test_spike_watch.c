// SPDX-License-Identifier: Apache-2.0
// Looks for spikes: each is counted once, and posted to a double of Alertmanager, whatever that answers.
// Subject: collector/spikes/spike_watch.c
// Subject: collector/spikes/spike_alert.c
#include "collector/spikes/spike_watch.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <pthread.h>
#include <sys/socket.h>

#include "tests/unit/collector/spikes/spikes_fixture.h"

enum { REQUEST_BYTES = 16384 };

/** A double of Alertmanager: answers each request with @status, and keeps the last. */
struct webhook {
	int listener;
	char url[64];
	const char *status;
	pthread_t thread;
	char request[REQUEST_BYTES];
	unsigned int request_count;
};

/** Read one request, whose Content-Length says how long it is. */
static void read_request(int fd, char request[REQUEST_BYTES])
{
	size_t size = 0, wanted = REQUEST_BYTES - 1;

	while (size < wanted) {
		ssize_t got = read(fd, request + size, REQUEST_BYTES - 1 - size);

		if (got <= 0)
			break;
		size += (size_t)got;
		request[size] = '\0';
		const char *body = strstr(request, "\r\n\r\n");
		const char *length = strstr(request, "Content-Length: ");

		if (body && length)
			wanted = (size_t)(body + 4 - request) + strtoul(length + 16, NULL, 10);
	}
}

static void *serve(void *context)
{
	struct webhook *webhook = context;
	int fd;

	while ((fd = accept(webhook->listener, NULL, NULL)) >= 0) {
		read_request(fd, webhook->request);
		webhook->request_count++;
		dprintf(fd, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
			webhook->status);
		close(fd);
	}
	return NULL;
}

static void webhook_open(struct webhook *webhook, const char *status)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);

	*webhook =
		(struct webhook){ .listener = socket(AF_INET, SOCK_STREAM, 0), .status = status };
	EXPECT_EQ(0, bind(webhook->listener, (struct sockaddr *)&address, size), "bind");
	EXPECT_EQ(0, listen(webhook->listener, 4), "listen");
	EXPECT_EQ(0, getsockname(webhook->listener, (struct sockaddr *)&address, &size), "port");
	snprintf(webhook->url, sizeof(webhook->url), "http://127.0.0.1:%u/api/v2/alerts",
		 ntohs(address.sin_port));
	EXPECT_EQ(0, pthread_create(&webhook->thread, NULL, serve, webhook), "thread");
}

static void webhook_close(struct webhook *webhook)
{
	shutdown(webhook->listener, SHUT_RDWR);
	pthread_join(webhook->thread, NULL);
	close(webhook->listener);
}

struct watched {
	struct fixture fixture;
	struct metrics metrics;
	struct spike_watch *watch;
};

static void open_watched(struct watched *watched, const char *url)
{
	struct error err = { 0 };

	*watched = (struct watched){ 0 };
	set_up(&watched->fixture);
	add_service(&watched->fixture, "shop", 0, MINUTES);
	add_lock_convoy(&watched->fixture, "shop");
	store_all(&watched->fixture);
	const struct spike_watch_options options = {
		.store = watched->fixture.store,
		.metrics = &watched->metrics,
		.interval_ns = 60 * NS_PER_SECOND,
		.webhook = url,
		.page_url = "https://cairn.example",
		.retry_ns = NS_PER_MS,
	};
	if (spike_watch_new(&options, &watched->watch, &err))
		fail_msg("%s", err.text);
}

static void close_watched(struct watched *watched)
{
	spike_watch_close(watched->watch);
	tear_down(&watched->fixture);
}

static uint32_t scan(struct watched *watched, unsigned int at_s)
{
	struct error err = { 0 };
	uint32_t count = 0;

	if (spike_watch_scan(watched->watch, watched->fixture.begin_ns + at_s * NS_PER_SECOND,
			     &count, &err))
		fail_msg("%s", err.text);
	return count;
}

TEST(a_spike_is_counted_once)
{
	struct watched watched;

	open_watched(&watched, NULL);
	EXPECT_EQ(0, scan(&watched, SPIKE_AT_S - 10), "before it");
	EXPECT_EQ(1, scan(&watched, SPIKE_AT_S + 2), "while it goes on");
	EXPECT_EQ(0, scan(&watched, SPIKE_AT_S + 30), "and after it");
	EXPECT_EQ(1, watched.metrics.counters[METRIC_SPIKES], "counted");
	EXPECT_EQ(0, watched.metrics.counters[METRIC_SPIKE_ALERTS], "no webhook");
	close_watched(&watched);
}

TEST(a_webhook_gets_it_as_an_alert)
{
	struct webhook webhook;
	struct watched watched;

	webhook_open(&webhook, "200 OK");
	open_watched(&watched, webhook.url);
	EXPECT_EQ(1, scan(&watched, SPIKE_AT_S + 30), "new");
	webhook_close(&webhook);

	assert_non_null(strstr(webhook.request, "POST /api/v2/alerts HTTP/1.1\r\n"));
	assert_non_null(strstr(webhook.request, "Content-Type: application/json\r\n"));
	json_t *alerts = json_loads(strstr(webhook.request, "\r\n\r\n") + 4, 0, NULL);
	EXPECT_EQ(1, json_array_size(alerts), "alerts");
	const char *name, *service, *wait, *pod, *begin, *end, *summary, *description, *url;
	EXPECT_EQ(0,
		  json_unpack(json_array_get(alerts, 0),
			      "{s:{s:s,s:s,s:s,s:s},s:s,s:s,s:{s:s,s:s},s:s}", "labels",
			      "alertname", &name, "service", &service, "wait", &wait, "pod", &pod,
			      "startsAt", &begin, "endsAt", &end, "annotations", "summary",
			      &summary, "description", &description, "generatorURL", &url),
		  "an alert");
	EXPECT_STR("CairnSpike", name, "alertname");
	EXPECT_STR("shop", service, "service");
	EXPECT_STR("lock", wait, "wait");
	EXPECT_STR("shop-1", pod, "pod");
	EXPECT_EQ(true, strcmp(begin, end) < 0 && begin[19] == '.' && begin[23] == 'Z', "times");
	assert_non_null(strstr(summary, "Blocked time (lock)"));
	assert_non_null(strstr(description, "`lock_wait` under `encode`"));
	assert_non_null(strstr(url, "https://cairn.example/?at="));
	json_decref(alerts);
	EXPECT_EQ(1, watched.metrics.counters[METRIC_SPIKE_ALERTS], "accepted");
	close_watched(&watched);
}

TEST(a_webhook_that_fails_is_tried_three_times)
{
	static const struct {
		const char *status;
		unsigned int tries;
	} rows[] = { { "500 Internal Server Error", SPIKE_WATCH_TRIES }, { "400 Bad Request", 1 } };

	for EACH (row, rows) {
		struct webhook webhook;
		struct watched watched;

		webhook_open(&webhook, row->status);
		open_watched(&watched, webhook.url);
		EXPECT_EQ(1, scan(&watched, SPIKE_AT_S + 30), row->status);
		webhook_close(&webhook);
		EXPECT_EQ(row->tries, webhook.request_count, row->status);
		EXPECT_EQ(1, watched.metrics.counters[METRIC_SPIKES], row->status);
		EXPECT_EQ(0, watched.metrics.counters[METRIC_SPIKE_ALERTS], row->status);
		EXPECT_EQ(1, watched.metrics.counters[METRIC_SPIKE_ALERTS_FAILED], row->status);
		close_watched(&watched);
	}
}

TEST(a_thread_ends_at_once)
{
	struct watched watched;
	struct error err = { 0 };

	open_watched(&watched, NULL);
	spike_watch_close(watched.watch);
	const struct spike_watch_options options = { .store = watched.fixture.store,
						     .metrics = &watched.metrics,
						     .interval_ns = 3600 * NS_PER_SECOND };
	EXPECT_EQ(0, spike_watch_open(&options, &watched.watch, &err), "opened");
	close_watched(&watched); // an hour before its first scan
}

RUN_TESTS(cmocka_unit_test(a_spike_is_counted_once),
	  cmocka_unit_test(a_webhook_gets_it_as_an_alert),
	  cmocka_unit_test(a_webhook_that_fails_is_tried_three_times),
	  cmocka_unit_test(a_thread_ends_at_once))
