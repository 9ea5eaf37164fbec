// SPDX-License-Identifier: Apache-2.0
// Subject: collector/http/http_api.h
// Each call of the HTTP API: its response, and its errors.
#include "tests/unit/collector/http/http_fixture.h"
#include "tests/unit/collector/limits/limits_fixture.h"

TEST(merge_returns_flame_tree_columns)
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

TEST(merge_returns_files)
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

	answer = ask(&f, "GET", "/api/v1/merge?format=chrome&" RANGE, "");
	assert_int_equal(200, answer.status);
	assert_true(has_header(&answer, "attachment; filename=\"cairn.trace.json\""));
	assert_non_null(strstr(answer.body, "\"traceEvents\":["));
	free(answer.bytes);
	close_fixture(&f);
}

TEST(merge_names_unsupported_format)
{
	struct fixture f;

	open_fixture(&f, 2);
	struct answer answer =
		ask(&f, "GET",
		    "/api/v1/merge?format=pstats&type=" PROFILE_TYPE_PAGE_FAULT "&" RANGE, "");
	assert_int_equal(400, answer.status);
	assert_non_null(strstr(answer.body, "\"field\":\"format\""));
	assert_non_null(strstr(answer.body, "hold times only"));
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

TEST(lists_services_by_value)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/services?" RANGE);
	json_t *services = json_object_get(json, "services");
	json_t *first = json_array_get(services, 0);

	assert_int_equal(1000000000, number_at(json, "total"));
	assert_int_equal(json_array_size(services), number_at(json, "service_count"));
	assert_int_equal(1000000000, number_at(first, "total"));
	assert_int_equal(2, number_at(first, "nodes"));
	assert_int_equal(0, number_at(first, "pods"));
	json_decref(json);
	close_fixture(&f);
}

TEST(callers_and_callees_are_two_trees)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *top = ask_json(&f, "/api/v1/top?" RANGE);
	json_t *leaf = json_array_get(json_object_get(top, "rows"), 0);
	char target[256];

	assert_int_equal(number_at(leaf, "total"),
			 json_integer_value(
				 json_array_get(json_object_get(leaf, "ran"), FRAME_KIND_NATIVE)));
	snprintf(target, sizeof(target), "/api/v1/callers?function=%s&lines=none&" RANGE,
		 json_string_value(json_object_get(leaf, "name")));
	json_t *json = ask_json(&f, target);
	json_t *callers = json_object_get(json, "callers"),
	       *callees = json_object_get(json, "callees");
	assert_int_equal(1000000000, number_at(callers, "total"));
	assert_int_equal(1000000000, number_at(callees, "total"));
	assert_int_equal(2, number_at(callers, "node_count")); // main calls it
	assert_int_equal(2,
			 number_at(callees, "node_count")); // the function and its call of itself
	json_decref(json);
	json_decref(top);
	close_fixture(&f);
}

TEST(merges_several_ranges)
{
	static const struct {
		const char *what, *ranges;
		int64_t total;
	} cases[] = {
		{ "all of it, in two", "1001/1002,1000/1001", 1000000000 },
		{ "one slot, given twice",
		  "1970-01-01T00:16:40Z/1970-01-01T00:16:40.020Z,"
		  "1970-01-01T00:16:40Z/1970-01-01T00:16:40.020Z",
		  10000000 },
		{ "in another time, as nanoseconds", "1000000000000000000/1000000000020000000", 0 },
	};
	struct fixture f;
	char target[256];

	open_fixture(&f, 2);
	for EACH (c, cases) {
		snprintf(target, sizeof(target), "/api/v1/merge?ranges=%s", c->ranges);
		json_t *json = ask_json(&f, target);
		EXPECT_EQ(c->total, number_at(json, "total"), c->what);
		json_decref(json);
		snprintf(target, sizeof(target), "/api/v1/top?ranges=%s", c->ranges);
		json = ask_json(&f, target);
		EXPECT_EQ(c->total, number_at(json, "total"), c->what);
		json_decref(json);
	}
	close_fixture(&f);
}

/** The second of two seconds against the first. */
TEST(a_diff_has_both_sides_values)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/diff?from=1001&to=1002");
	json_t *a = json_object_get(json, "a"), *b = json_object_get(json, "b");
	json_t *nodes = json_object_get(json, "nodes");
	json_t *self =
		json_object_get(json_array_get(json_object_get(json, "functions"), 0), "self");

	assert_int_equal(500000000, number_at(a, "total"));
	assert_int_equal(500000000, number_at(b, "total"));
	assert_int_equal(2, number_at(a, "instances"));
	EXPECT_STR("rate", json_string_value(json_object_get(json, "norm")), "norm");
	assert_int_equal(4, number_at(json, "node_count"));
	assert_int_equal(4, json_array_size(json_object_get(nodes, "certainty")));
	assert_int_equal(500000000,
			 json_integer_value(json_array_get(json_object_get(nodes, "a_total"), 0)));
	assert_int_equal(2, number_at(json, "function_count"));
	assert_int_equal(number_at(self, "a"), number_at(self, "b"));
	assert_true(json_is_false(json_object_get(self, "significant")));
	json_decref(json);

	json = ask_json(&f, "/api/v1/diff?from=1001&to=1002&against=rest&against_from=1000&"
			    "against_to=1002&norm=share&max_nodes=2&limit=1&sort=total");
	json_t *ranges = json_object_get(json_object_get(json, "a"), "ranges_ns");
	assert_int_equal(1, json_array_size(ranges));
	assert_int_equal(1001 * NS_PER_SECOND,
			 json_integer_value(json_array_get(json_array_get(ranges, 0), 1)));
	assert_int_equal(1, json_array_size(json_object_get(json, "functions")));
	nodes = json_object_get(json, "nodes");
	assert_int_equal(2, json_array_size(json_object_get(nodes, "b_self")));
	json_decref(json);

	json = ask_json(&f, "/api/v1/diff?ranges=1000/1001&against_ranges=1001/1002,1000/1001");
	ranges = json_object_get(json_object_get(json, "a"), "ranges_ns");
	assert_int_equal(1, json_array_size(ranges)); // they meet
	assert_int_equal(1000000000, number_at(json_object_get(json, "a"), "total"));
	assert_int_equal(500000000, number_at(json_object_get(json, "b"), "total"));
	json_decref(json);
	close_fixture(&f);
}

TEST(a_folded_diff_scales_the_baseline)
{
	struct fixture f;

	open_fixture(&f, 2);
	// Node b has a quarter of the samples of both; per second and node it has less than they have.
	struct answer answer = ask(&f, "GET",
				   "/api/v1/diff?from=1000&to=1002&query={node=%22b%22}&"
				   "against_query=llm&norm=share&format=collapsed",
				   "");
	assert_int_equal(200, answer.status);
	assert_non_null(strstr(answer.body, "main;work"));
	assert_non_null(strstr(answer.body, " 250000000 250000000\n"));
	free(answer.bytes);
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
	assert_null(json_object_get(json, "peaks"));
	json_decref(json);
	json = ask_json(&f, "/api/v1/heatmap?slot=1s&peak=20ms&" RANGE);
	assert_int_equal(20000000, number_at(json, "peak_ns"));
	assert_int_equal(2, json_array_size(json_object_get(json, "peaks")));
	assert_int_equal(10000000,
			 json_integer_value(json_array_get(json_object_get(json, "peaks"), 0)));
	json_decref(json);
	close_fixture(&f);
}

TEST(a_timeline_has_runs_of_equal_values)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/timeline?limit=1&" RANGE);
	json_t *threads = json_object_get(json, "threads");
	json_t *part = json_array_get(json_object_get(json_array_get(threads, 0), "parts"), 0);
	json_t *runs = json_object_get(part, "runs");

	assert_int_equal(1000000000000, number_at(json, "from_ns"));
	assert_int_equal(20000000, number_at(json, "slot_ns"));
	assert_int_equal(100, number_at(json, "slot_count"));
	assert_int_equal(1, number_at(json, "left_out"));
	assert_int_equal(250000000, number_at(json, "left_out_active"));
	assert_int_equal(1, json_array_size(threads));
	assert_int_equal(750000000, number_at(part, "total"));
	// Of four slots the first is the other thread's.
	assert_int_equal(25 * 3, json_array_size(runs));
	for (uint32_t i = 0; i < 25 * 3; i++)
		assert_int_equal(i % 3 == 0   ? 1
				 : i % 3 == 1 ? 3
					      : 10000000,
				 json_integer_value(json_array_get(runs, i)));
	json_decref(json);
	json = ask_json(&f, "/api/v1/timeline?from=1000&to=4600");
	assert_int_equal(121 * 20000000LL, number_at(json, "slot_ns")); // an hour in 1488 slots
	json_decref(json);
	close_fixture(&f);
}

TEST(series_are_grouped_by_several_labels)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/series?step=1s&group_by=node,rack,service&" RANGE);
	json_t *first = json_array_get(json_object_get(json, "series"), 0);
	json_t *labels = json_object_get(first, "labels");

	assert_int_equal(2, json_array_size(json_object_get(json, "series")));
	assert_int_equal(2, json_object_size(labels)); // no series has a rack
	assert_non_null(json_object_get(labels, "node"));
	assert_non_null(json_object_get(labels, "service"));
	assert_non_null(strstr(json_string_value(json_object_get(first, "group")), ", "));
	assert_int_equal(750000000, number_at(first, "total"));
	json_decref(json);
	close_fixture(&f);
}

TEST(spikes_say_what_they_were_compared_with)
{
	struct fixture f;

	open_fixture(&f, 2);
	json_t *json = ask_json(&f, "/api/v1/spikes?" RANGE);

	// Two batches are no history.
	assert_int_equal(0, json_array_size(json_object_get(json, "spikes")));
	assert_true(json_is_array(json_object_get(json, "spikes")));
	assert_int_equal(0, number_at(json, "found"));
	assert_true(json_is_integer(json_object_get(json, "history_ns")));
	json_decref(json);
	close_fixture(&f);
}

/* A fifth of a core, and for 5 s two, after four minutes. */
static void add_spike(struct store *store)
{
	for (uint32_t half = 0; half < 2 * 255; half++) {
		bool is_spike = half >= 2 * 240 && half < 2 * 245;
		struct memory_sample sample = {
			.slot_ns = 20000000,
			.time_ns = 2000 * NS_PER_SECOND + half * (NS_PER_SECOND / 2),
			.locations = { 1, 0 },
			.location_count = 2,
			.value = is_spike ? 1000000000 : 100000000 + (int64_t)(half % 7) * 1000000,
		};
		memory_store_add(store, &sample);
	}
}

TEST(a_diagnosis_says_what_changed)
{
	struct fixture f;

	open_fixture(&f, 2);
	add_spike(f.store);
	json_t *json = ask_json(&f, "/api/v1/diagnose?query=llm&from=2230&to=2250");
	json_t *changed = json_object_get(json, "changed");

	assert_int_equal(1, json_array_size(changed));
	json_t *spike = json_array_get(changed, 0);
	assert_non_null(strstr(json_string_value(json_object_get(spike, "title")), "CPU time"));
	assert_non_null(strstr(json_string_value(json_object_get(spike, "sentence")), "work"));
	assert_non_null(strstr(json_string_value(json_object_get(spike, "path")), "at=22"));
	json_decref(json);
	json = ask_json(&f, "/api/v1/diagnose?query=llm&from=2200&to=2220");
	assert_int_equal(0, json_array_size(json_object_get(json, "changed")));
	assert_true(json_is_array(json_object_get(json, "changed")));
	json_decref(json);
	f.store->activity_rc = -EIO;
	json = ask_json(&f, "/api/v1/diagnose?query=llm&from=2200&to=2220");
	assert_string_equal("activity: as the test wants it",
			    json_string_value(json_object_get(json, "changed_unknown")));
	assert_null(json_object_get(json, "changed"));
	json_decref(json);
	close_fixture(&f);
}

TEST(returns_names_and_status)
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
	assert_int_equal(1234, number_at(json, "disk_free_bytes"));
	assert_int_equal(0, number_at(json, "batches_refused"));
	json_decref(json);
	json = ask_json(&f, "/api/v1/agents");
	assert_int_equal(0, json_array_size(json_object_get(json, "agents")));
	assert_true(number_at(json, "now_ns") > 0);
	json_decref(json);
	close_fixture(&f);
}

TEST(says_what_damage_has_left_out)
{
	struct fixture f;
	struct answer answer;

	open_fixture(&f, 2);
	answer = ask(&f, "GET", "/api/v1/labels?from=0&to=1002", "");
	assert_int_equal(200, answer.status);
	assert_true(has_header(&answer, "Cairn-Incomplete: damaged; partitions=1; first_ns=0\r\n"));
	assert_true(has_header(&answer, "Cairn-Resolution: 1s\r\n"));
	free(answer.bytes);
	answer = ask(&f, "GET", "/api/v1/labels?" RANGE, "");
	assert_false(has_header(&answer, "Cairn-Incomplete"));
	assert_false(has_header(&answer, "Cairn-Resolution"));
	free(answer.bytes);
	json_t *json = ask_json(&f, "/api/v1/status");
	assert_int_equal(1, number_at(json, "damaged_partitions"));
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
	  "expected one of: query, type, from, to, max_nodes, group_by, format, ranges" },
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
	{ "no function", "/api/v1/callers?" RANGE, 400, "invalid_argument", "function",
	  "is missing" },
	{ "unknown lines", "/api/v1/top?lines=yes", 400, "invalid_argument", "lines",
	  "\"yes\" is not one of interpreted, none and all" },
	{ "ranges beside from", "/api/v1/merge?ranges=1000/1001&from=900", 400, "invalid_argument",
	  "ranges", "either ranges, or from and to" },
	{ "a range without an end", "/api/v1/merge?ranges=1000", 400, "invalid_argument", "ranges",
	  "\"1000\" is not FROM/TO" },
	{ "no time in ranges", "/api/v1/top?ranges=1000/1001,/", 400, "invalid_argument", "ranges",
	  "" },
	{ "an empty range of several", "/api/v1/top?ranges=1000/1001,", 400, "invalid_argument",
	  "ranges", "is not FROM/TO" },
	{ "ranges in reverse", "/api/v1/top?ranges=1001/1000", 400, "invalid_argument", "ranges",
	  "FROM must be before TO" },
	{ "a long time in ranges",
	  "/api/v1/top?ranges=1000/"
	  "11111111111111111111111111111111111111111111111111111111111111111111111111111111111111"
	  "1111111111111111",
	  400, "invalid_argument", "ranges", "is not FROM/TO" },
	{ "too many ranges",
	  "/api/v1/merge?ranges=1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,"
	  "1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,"
	  "1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,1/2,"
	  "1/2,1/2,1/2,1/2,1/2",
	  400, "invalid_argument", "ranges", "more than 64 ranges" },
	{ "ranges far apart", "/api/v1/merge?ranges=1000/1001,9000000/9000001", 400,
	  "invalid_argument", "ranges", "31 days" },
	{ "ranges of a call that takes none", "/api/v1/series?ranges=1000/1001", 400,
	  "invalid_argument", "ranges", "unknown parameter" },
	{ "services of a gauge", "/api/v1/services?type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "has no cost" },
	{ "peaks of part of a slot", "/api/v1/heatmap?slot=30ms&peak=20ms", 400, "invalid_argument",
	  "peak", "multiple of peak" },
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
	{ "spikes of a gauge", "/api/v1/spikes?type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "not judged" },
	{ "too many spikes", "/api/v1/spikes?limit=101", 400, "invalid_argument", "limit", "100" },
	{ "least extra time", "/api/v1/spikes?min=1ms", 400, "invalid_argument", "min", "10ms" },
	{ "limit", "/api/v1/top?limit=10001", 400, "invalid_argument", "limit", "1 to 10000" },
	{ "step without a unit", "/api/v1/series?step=5", 400, "invalid_argument", "step",
	  "is not a duration" },
	{ "step too short", "/api/v1/series?step=1ms", 400, "invalid_argument", "step", "10ms" },
	{ "too many steps", "/api/v1/series?step=20ms&from=now-1h", 400, "invalid_argument", "step",
	  "(limit 11000); choose at least" },
	{ "too many slots", "/api/v1/heatmap?from=now-1d", 400, "invalid_argument", "slot",
	  "choose at least" },
	{ "too many slots of a timeline", "/api/v1/timeline?slot=20ms&from=now-1h", 400,
	  "invalid_argument", "slot", "(limit 6000); choose at least" },
	{ "too many threads", "/api/v1/timeline?limit=501", 400, "invalid_argument", "limit",
	  "at most 500 threads" },
	{ "a timeline of one type", "/api/v1/timeline?type=x", 400, "invalid_argument", "type",
	  "unknown parameter" },
	{ "label's name", "/api/v1/top?group_by=a-b", 400, "invalid_argument", "group_by", "a-b" },
	{ "label's first letter", "/api/v1/top?group_by=1b", 400, "invalid_argument", "group_by",
	  "" },
	{ "several labels where one is taken", "/api/v1/top?group_by=a,b", 400, "invalid_argument",
	  "group_by", "one label only" },
	{ "a label without a name", "/api/v1/series?group_by=a,,b", 400, "invalid_argument",
	  "group_by", "is not a label's name" },
	{ "nine labels", "/api/v1/series?group_by=a,b,c,d,e,f,g,h,i", 400, "invalid_argument",
	  "group_by", "too many labels" },
	{ "a diff's norm", "/api/v1/diff?norm=log", 400, "invalid_argument", "norm",
	  "neither rate nor share" },
	{ "a diff's order", "/api/v1/diff?sort=name", 400, "invalid_argument", "sort",
	  "neither self nor total" },
	{ "a diff's instances", "/api/v1/diff?per=a-b", 400, "invalid_argument", "per",
	  "auto, none or a label" },
	{ "a baseline that is no time", "/api/v1/diff?against=yesterday", 400, "invalid_argument",
	  "against", "neither rest nor a duration" },
	{ "a baseline before 1970", "/api/v1/diff?from=1000&to=1002&against=1d", 400,
	  "invalid_argument", "against", "before 1970" },
	{ "half of a baseline's time", "/api/v1/diff?against_from=now-1h", 400, "invalid_argument",
	  "against_to", "is missing" },
	{ "a baseline's times in reverse", "/api/v1/diff?against_from=2000&against_to=1000", 400,
	  "invalid_argument", "against_from", "must be before against_to" },
	{ "a long baseline", "/api/v1/diff?against_from=1000&against_to=10000000", 400,
	  "invalid_argument", "against_from", "31 days" },
	{ "two baselines", "/api/v1/diff?against=1d&against_from=1000&against_to=1001", 400,
	  "invalid_argument", "against", "all say when" },
	{ "the rest of nothing", "/api/v1/diff?against=rest", 400, "invalid_argument",
	  "against_from", "is missing" },
	{ "no rest",
	  "/api/v1/diff?from=1000&to=1002&against=rest&against_from=1000&against_to=1001", 400,
	  "invalid_argument", "against_from", "nothing is left" },
	{ "a bad baseline", "/api/v1/diff?against_query=%7Bnode", 400, "invalid_argument",
	  "against_query", "column 6" },
	{ "a diff as a picture", "/api/v1/diff?format=svg", 400, "invalid_argument", "format",
	  "json or collapsed" },
	{ "a diff of a gauge", "/api/v1/diff?type=memory:rss:bytes:gauge:second", 400,
	  "invalid_argument", "type", "gauge" },
	{ "a diff's parameter elsewhere", "/api/v1/top?against=1d", 400, "invalid_argument",
	  "against", "unknown parameter" },
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

TEST(errors_name_the_field)
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

TEST(a_failing_store_is_an_error)
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

TEST(sends_gzip_to_clients_that_accept_it)
{
	struct fixture f;
	static char plain[256 * 1024];

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

TEST(head_returns_headers_without_body)
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

TEST(browsers_revalidate_the_page_by_etag)
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

TEST(responses_restrict_browsers_to_this_origin)
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

TEST(allows_only_get_and_head_without_body)
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

TEST(a_tenants_range_is_refused_in_words)
{
	static const struct {
		const char *method, *target, *what;
		int status;
		const char *words;
	} rows[] = {
		{ "GET", "/api/v1/merge?from=1000&to=1060", "a minute", 200, "" },
		{ "GET", "/api/v1/merge?from=1000&to=1061", "more", 422,
		  "{\"error\":{\"code\":\"limit_exceeded\",\"field\":\"from\",\"message\":"
		  "\"tenant *: query-range: 1m (" },
		{ "GET", "/api/v1/merge?ranges=1000/1001,1100/1101", "ranges", 422, "query-range" },
		{ "GET", "/api/v1/diff?from=1000&to=1002&against_from=900&against_to=990",
		  "the baseline", 422, "\"field\":\"against_from\"" },
		{ "GET",
		  "/pyroscope/render?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%7B%7D"
		  "&from=1000&until=1100",
		  "Grafana", 422, "{\"code\":\"out_of_range\",\"message\":\"tenant *: " },
		{ "GET", "/api/v1/status", "no range", 200,
		  ",\"limits\":[{\"tenant\":\"*\",\"limit\":\"query-range\",\"value\":\"1m\","
		  "\"set_in\":\"" },
		{ "GET", "/metrics", "counted", 200,
		  "cairn_tenant_refused_total{tenant=\"*\",limit=\"query-range\"} 4\n" },
		{ "DELETE", "/api/v1/series?query=llm&dry_run=true", "a deletion is no query", 200,
		  "" },
	};
	struct limits_fixture limits;
	struct fixture f;

	open_fixture(&f, 2);
	limits_open(&limits, "tenants: {\"*\": {query-range: 1m}}\n");
	f.api.limits = limits.limits;
	for EACH (row, rows) {
		struct answer answer = ask(&f, row->method, row->target, "");

		EXPECT_EQ(row->status, answer.status, row->what);
		if (!strstr(answer.body, row->words))
			fail_msg("%s: %s", row->what, answer.body);
		free(answer.bytes);
	}
	close_fixture(&f);
	limits_close(&limits);
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

RUN_TESTS(cmocka_unit_test(a_tenants_range_is_refused_in_words),
	  cmocka_unit_test(merge_returns_flame_tree_columns),
	  cmocka_unit_test(says_what_damage_has_left_out), cmocka_unit_test(merge_returns_files),
	  cmocka_unit_test(top_counts_recursion_once),
	  cmocka_unit_test(callers_and_callees_are_two_trees),
	  cmocka_unit_test(merges_several_ranges), cmocka_unit_test(a_diff_has_both_sides_values),
	  cmocka_unit_test(a_folded_diff_scales_the_baseline),
	  cmocka_unit_test(merge_names_unsupported_format),
	  cmocka_unit_test(series_and_heat_map_sum_over_time),
	  cmocka_unit_test(a_timeline_has_runs_of_equal_values),
	  cmocka_unit_test(lists_services_by_value),
	  cmocka_unit_test(series_are_grouped_by_several_labels),
	  cmocka_unit_test(spikes_say_what_they_were_compared_with),
	  cmocka_unit_test(a_diagnosis_says_what_changed),
	  cmocka_unit_test(returns_names_and_status), cmocka_unit_test(errors_name_the_field),
	  cmocka_unit_test(a_failing_store_is_an_error),
	  cmocka_unit_test(sends_gzip_to_clients_that_accept_it),
	  cmocka_unit_test(head_returns_headers_without_body),
	  cmocka_unit_test(browsers_revalidate_the_page_by_etag),
	  cmocka_unit_test(responses_restrict_browsers_to_this_origin),
	  cmocka_unit_test(allows_only_get_and_head_without_body),
	  cmocka_unit_test(metrics_are_prometheus_text))
