// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod_watch.h"

#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "tests/test.h"
#include "tests/unit/agent/containers/api_server_double.h"
#include "tests/unit/agent/containers/pods_json.h"

enum { WAIT_S = 20 };

#define LIST(version, more, items)                                                          \
	"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version "\"" more "}," \
	"\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define POD(uid)            POD_JSON(uid, "", "", BOTH_STATUSES)

struct fixture {
	struct api_server_double server;
	const char *kubelet; // its URL; NULL: none
	const char *node_labels;
	struct pod_table *table;
	struct event_log *events;
	struct pod_watch *watch;
};

static void begin(struct fixture *fixture, const struct answer *answers, uint32_t count)
{
	double_open(&fixture->server, answers, count);
	fixture->table = pod_table_new();
	fixture->events = event_log_new();
	assert_non_null(fixture->table);
	if (fixture->node_labels)
		pod_table_await_node(fixture->table);
	const struct pod_watch_options options = {
		.server = fixture->server.url,
		.kubelet = fixture->kubelet,
		.node = "n1",
		.credentials = "/nowhere",
		.table = fixture->table,
		.events = fixture->events,
		.node_labels = fixture->node_labels,
		.retry_min_ns = NS_PER_MS,
	};
	struct error err = { 0 };

	if (pod_watch_start(&options, &fixture->watch, &err))
		fail_msg("%s", err.text);
}

static void finish(struct fixture *fixture)
{
	pod_watch_free(fixture->watch);
	event_log_free(fixture->events);
	pod_table_free(fixture->table);
	double_close(&fixture->server);
}

static void wait_for(const struct fixture *fixture, bool (*is_so)(const struct fixture *fixture))
{
	uint64_t until_ns = clock_monotonic_ns() + WAIT_S * NS_PER_SECOND;
	const struct timespec pause = { .tv_nsec = 2000000 };

	while (!is_so(fixture)) {
		assert_true(clock_monotonic_ns() < until_ns);
		nanosleep(&pause, NULL);
	}
}

static struct pod_watch_stats stats_of(const struct fixture *fixture)
{
	struct pod_watch_stats stats;

	pod_watch_read_stats(fixture->watch, &stats);
	return stats;
}

static uint64_t pods_of(const struct fixture *fixture)
{
	struct pod_table_stats stats;

	pod_table_read_stats(fixture->table, &stats);
	return stats.pods;
}

static bool has_second_request(const struct fixture *fixture)
{
	return atomic_load(&fixture->server.request_count) >= 2;
}

static bool has_third_request(const struct fixture *fixture)
{
	return atomic_load(&fixture->server.request_count) >= 3;
}

static bool has_two_pods(const struct fixture *fixture)
{
	return pods_of(fixture) == 2;
}

static bool has_a_list(const struct fixture *fixture)
{
	return stats_of(fixture).lists >= 1;
}

static bool has_two_lists(const struct fixture *fixture)
{
	return stats_of(fixture).lists >= 2;
}

TEST(lists_by_pages_then_watches)
{
	static const struct answer answers[] = {
		{ 200, LIST("10", ",\"continue\":\"page2\"", POD(POD_UID)), false },
		{ 200, LIST("10", "", POD(OTHER_POD_UID)), false },
		{ 200, EVENT("DELETED", POD(POD_UID)), true },
	};
	struct fixture fixture = { 0 };

	begin(&fixture, answers, 3);
	wait_for(&fixture, has_third_request);
	assert_string_equal("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=100&"
			    "resourceVersion=0 HTTP/1.1",
			    double_request(&fixture.server, 0));
	assert_string_equal("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=100&"
			    "continue=page2 HTTP/1.1",
			    double_request(&fixture.server, 1));
	assert_non_null(strstr(double_request(&fixture.server, 2), "watch=1"));
	assert_non_null(strstr(double_request(&fixture.server, 2), "&resourceVersion=10&"));
	assert_non_null(
		strstr(double_request(&fixture.server, 2), "fieldSelector=spec.nodeName%3Dn1&"));
	finish(&fixture);
}

static bool has_event(const struct fixture *fixture)
{
	return stats_of(fixture).events >= 1;
}

TEST(events_change_the_table)
{
	static const struct answer answers[] = {
		{ 200, LIST("10", "", POD(POD_UID)), false },
		{ 200, EVENT("ADDED", POD(OTHER_POD_UID)), true },
	};
	struct fixture fixture = { 0 };

	begin(&fixture, answers, 2);
	wait_for(&fixture, has_event);
	wait_for(&fixture, has_two_pods);
	assert_int_equal(1, stats_of(&fixture).lists);
	assert_int_equal(0, stats_of(&fixture).failures);
	finish(&fixture);
}

TEST(goes_on_after_the_last_event)
{
	static const struct answer answers[] = {
		{ 200, LIST("10", "", ""), false },
		{ 200, EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"77\"}}"), false },
		{ 200, "", true },
	};
	struct fixture fixture = { 0 };

	begin(&fixture, answers, 3);
	wait_for(&fixture, has_third_request);
	assert_non_null(strstr(double_request(&fixture.server, 2), "&resourceVersion=77&"));
	assert_int_equal(1, stats_of(&fixture).lists);
	finish(&fixture);
}

/* Each with a second list after it. */
static const struct {
	const char *what;
	struct answer answer;
	uint64_t failures;
} relists[] = {
	{ "gone", { 410, "", false }, 0 },
	{ "gone in an event", { 200, EVENT("ERROR", "{\"code\":410}"), false }, 0 },
	{ "another error", { 200, EVENT("ERROR", "{\"code\":500}"), false }, 1 },
	{ "no JSON", { 200, "<html>}", false }, 1 },
	{ "forbidden", { 403, "", false }, 1 },
};

TEST(lists_again_where_it_cannot_go_on)
{
	for EACH (row, relists) {
		const struct answer answers[] = {
			{ 200, LIST("10", "", POD(POD_UID)), false },
			row->answer,
			{ 200, LIST("20", "", POD(POD_UID) "," POD(OTHER_POD_UID)), false },
			{ 200, "", true },
		};
		struct fixture fixture = { 0 };

		begin(&fixture, answers, 4);
		wait_for(&fixture, has_two_lists);
		EXPECT_EQ(row->failures, stats_of(&fixture).failures, row->what);
		EXPECT_EQ(2, pods_of(&fixture), row->what);
		finish(&fixture);
	}
}

/* What a list answers before it is right. */
static const struct {
	const char *what;
	struct answer answer;
	const char *words; // of the log
} failures[] = {
	{ "in trouble", { 503, "", false }, "503" },
	{ "forbidden", { 403, "", false }, "let the service account list and watch pods" },
	{ "cut off",
	  { 200, "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[", false },
	  "cut off" },
	{ "no list", { 200, "{\"kind\":\"Status\"}", false }, "no list of pods" },
	{ "garbage", { 200, "]]]", false }, "no list of pods" },
	{ "a redirection", { 302, "", false }, "no list of pods" },
};

TEST(says_why_no_list_came_and_tries_again)
{
	for EACH (row, failures) {
		const struct answer answers[] = {
			row->answer,
			row->answer,
			{ 200, LIST("20", "", POD(POD_UID)), false },
			{ 200, "", true },
		};
		struct fixture fixture = { 0 };
		struct event event;
		uint32_t warnings = 0;

		begin(&fixture, answers, 4);
		wait_for(&fixture, has_a_list);
		while (event_log_next(fixture.events, &event)) {
			warnings += event.severity == LOG_LEVEL_WARN;
			if (event.severity == LOG_LEVEL_WARN && !strstr(event.text, row->words))
				fail_msg("%s: %s", row->what, event.text);
		}
		EXPECT_EQ(1, warnings, row->what); // one for two failures
		finish(&fixture);
	}
}

static bool has_dropped(const struct fixture *fixture)
{
	return stats_of(fixture).dropped >= 1;
}

static bool has_failed_twice(const struct fixture *fixture)
{
	return stats_of(fixture).failures >= 2; // of server and kubelet
}

static bool has_pods(const struct fixture *fixture)
{
	return pods_of(fixture) == 1;
}

TEST(asks_kubelet_while_server_is_away)
{
	static const struct answer away[] = {
		{ 503, "", false },
		{ 503, "", false },
		{ 200, LIST("20", "", POD(POD_UID) "," POD(OTHER_POD_UID)), false },
		{ 200, "", true },
	};
	// It has no version, nor another page.
	static const struct answer kubelet[] = {
		{ 200, "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[" POD(POD_UID) "]}",
		  false },
	};
	struct api_server_double node;
	struct fixture fixture = { 0 };

	double_open(&node, kubelet, 1);
	fixture.kubelet = node.url;
	begin(&fixture, away, 4);
	wait_for(&fixture, has_two_pods);
	assert_string_equal("GET /pods HTTP/1.1", double_request(&node, 0));
	assert_true(atomic_load(&node.request_count) >= 2);
	finish(&fixture);
	double_close(&node);
}

TEST(a_dead_kubelet_leaves_what_was_known)
{
	static const struct answer away[] = {
		{ 200, LIST("10", "", POD(POD_UID)), false },
		{ 410, "", false },
		{ 503, "", false },
	};
	static const struct answer kubelet[] = { { 500, "", false } };
	struct api_server_double node;
	struct fixture fixture = { 0 };

	double_open(&node, kubelet, 1);
	fixture.kubelet = node.url;
	begin(&fixture, away, 3);
	wait_for(&fixture, has_pods);
	wait_for(&fixture, has_failed_twice);
	assert_true(atomic_load(&node.request_count) >= 1);
	assert_int_equal(1, pods_of(&fixture));
	finish(&fixture);
	double_close(&node);
}

TEST(a_bad_pod_does_not_hide_others)
{
	static const struct answer answers[] = {
		{ 200, LIST("10", "", "{\"metadata\":{\"uid\":\"bad\"}}," POD(POD_UID)), false },
		{ 200,
		  EVENT("ADDED", "{\"metadata\":{\"uid\":7}}") EVENT("ADDED", POD(OTHER_POD_UID)),
		  true },
	};
	struct fixture fixture = { 0 };

	begin(&fixture, answers, 2);
	wait_for(&fixture, has_dropped);
	wait_for(&fixture, has_two_pods);
	assert_int_equal(2, stats_of(&fixture).dropped);
	finish(&fixture);
}

TEST(a_silent_watch_ends_when_asked)
{
	static const struct answer answers[] = {
		{ 200, LIST("10", "", ""), false },
		{ 200, "", true },
		{ 200, "", true },
	};
	struct fixture fixture = { 0 };

	begin(&fixture, answers, 3);
	wait_for(&fixture, has_second_request);
	finish(&fixture); // hangs if it waits for the server
}

static const struct {
	const char *what, *server, *kubelet, *node;
} bad_options[] = {
	{ "no scheme", "1.2.3.4:6443", NULL, "n1" },
	{ "the token in the clear", "http://10.0.0.1:6443", NULL, "n1" },
	{ "a path", "https://10.0.0.1:6443/x", NULL, "n1" },
	{ "a user", "https://a@10.0.0.1:6443", NULL, "n1" },
	{ "no node", "https://10.0.0.1:6443", NULL, "" },
	{ "no node's name", "https://10.0.0.1:6443", NULL, "n1&x=y" },
	{ "no kubelet", "https://10.0.0.1:6443", "10.0.0.1", "n1" },
};

TEST(refuses_addresses_and_names)
{
	for EACH (row, bad_options) {
		const struct pod_watch_options options = {
			.server = row->server,
			.kubelet = row->kubelet,
			.node = row->node,
			.credentials = "/nowhere",
		};
		struct pod_watch *watch;
		struct error err;

		EXPECT_EQ(-EINVAL, pod_watch_start(&options, &watch, &err), row->what);
	}
}

TEST(asks_for_its_own_node_first)
{
	static const struct answer answers[] = {
		{ 200,
		  "{\"kind\":\"Node\",\"metadata\":{\"labels\":{\"topology.kubernetes.io/"
		  "zone\":\"a\"}}}",
		  false },
		{ 200, LIST("10", "", POD(POD_UID)), false },
		{ 200, "", true },
	};
	struct fixture fixture = { .node_labels = "topology.kubernetes.io/zone" };
	struct labels labels = { 0 };
	uint64_t version;

	begin(&fixture, answers, 3);
	wait_for(&fixture, has_a_list);
	assert_string_equal("GET /api/v1/nodes/n1?resourceVersion=0 HTTP/1.1",
			    double_request(&fixture.server, 0));
	assert_int_equal(0, pod_table_copy_node(fixture.table, &labels, &version));
	assert_int_equal(1, version);
	assert_string_equal("a", labels_get(&labels, "zone"));
	assert_int_equal(0, pod_table_node_wait_ns(fixture.table));
	labels_deinit(&labels);
	finish(&fixture);
}

static const struct {
	const char *what;
	struct answer answer;
	bool is_awaited; // after it
	const char *warning;
} node_failures[] = {
	{ "forbidden", { 403, "", false }, false, "let the service account get nodes" },
	{ "unknown", { 404, "", false }, false, "--node must be the node's name" },
	{ "out of order", { 500, "", false }, true, "asking again in some minutes" },
	{ "no node", { 200, "{}", false }, true, "asking again" },
	{ "no JSON", { 200, "}}", false }, true, "asking again" },
};

TEST(pods_are_named_without_their_node)
{
	for EACH (row, node_failures) {
		const struct answer answers[] = {
			row->answer,
			{ 200, LIST("10", "", POD(POD_UID)), false },
			{ 200, "", true },
		};
		struct fixture fixture = { .node_labels = "*" };
		struct event event = { 0 };

		begin(&fixture, answers, 3);
		wait_for(&fixture, has_a_list);
		EXPECT_EQ(1, pods_of(&fixture), row->what);
		EXPECT_EQ(1, stats_of(&fixture).failures, row->what);
		EXPECT_EQ(row->is_awaited, pod_table_node_wait_ns(fixture.table) != 0, row->what);
		EXPECT_EQ(true, event_log_next(fixture.events, &event), row->what);
		if (!strstr(event.text, row->warning))
			fail_msg("%s: %s", row->what, event.text);
		finish(&fixture);
	}
}

RUN_TESTS(cmocka_unit_test(lists_by_pages_then_watches), cmocka_unit_test(events_change_the_table),
	  cmocka_unit_test(goes_on_after_the_last_event),
	  cmocka_unit_test(lists_again_where_it_cannot_go_on),
	  cmocka_unit_test(says_why_no_list_came_and_tries_again),
	  cmocka_unit_test(asks_kubelet_while_server_is_away),
	  cmocka_unit_test(a_dead_kubelet_leaves_what_was_known),
	  cmocka_unit_test(a_bad_pod_does_not_hide_others),
	  cmocka_unit_test(a_silent_watch_ends_when_asked),
	  cmocka_unit_test(refuses_addresses_and_names),
	  cmocka_unit_test(asks_for_its_own_node_first),
	  cmocka_unit_test(pods_are_named_without_their_node))
