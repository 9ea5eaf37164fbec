// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "collector/pyroscope/message_json.h"
#include "querier/v1/querier.pb-c.h"

static int parse(const char *text, Querier__V1__SelectSeriesRequest **ret_request,
		 struct error *err)
{
	return message_json_parse(&querier__v1__select_series_request__descriptor, text,
				  strlen(text), (ProtobufCMessage **)ret_request, err);
}

TEST(reads_camel_case_and_numbers_in_strings)
{
	Querier__V1__SelectSeriesRequest *request = NULL;
	struct error err = { 0 };

	EXPECT_EQ(
		0,
		parse("{\"profileTypeID\":\"a:b:c:d:e\",\"label_selector\":\"{}\",\"start\":\"12\","
		      "\"end\":34,\"groupBy\":[\"pod\",\"node\"],\"step\":1.5,"
		      "\"aggregation\":\"TIME_SERIES_AGGREGATION_TYPE_AVERAGE\",\"limit\":null,"
		      "\"stackTraceSelector\":{\"callSite\":[{\"name\":\"main\"}]},\"new\":{}}",
		      &request, &err),
		"parse");
	EXPECT_STR("a:b:c:d:e", request->profile_typeid, "profileTypeID");
	EXPECT_STR("{}", request->label_selector, "a name of the .proto file");
	EXPECT_EQ(12, request->start, "a string");
	EXPECT_EQ(34, request->end, "a number");
	EXPECT_EQ(2, request->n_group_by, "a list");
	EXPECT_STR("node", request->group_by[1], "a list");
	assert_true(request->step == 1.5);
	EXPECT_EQ(1, request->aggregation, "an enum's name");
	EXPECT_STR("main", request->stack_trace_selector->call_site[0]->name, "an object");
	querier__v1__select_series_request__free_unpacked(request, NULL);
}

static const struct {
	const char *text, *word;
} refused[] = {
	{ "", "JSON, line" },
	{ "[]", "an object" },
	{ "{\"start\":\"1x\"}", "start: expected a whole number" },
	{ "{\"start\":{}}", "start: expected a whole number" },
	{ "{\"start\":1e300}", "start: expected a whole number" },
	{ "{\"step\":\"one\"}", "step: expected a number" },
	{ "{\"groupBy\":\"pod\"}", "groupBy: expected a list" },
	{ "{\"groupBy\":[\"pod\",7]}", "groupBy: expected a string" },
	{ "{\"aggregation\":\"MEDIAN\"}", "aggregation: expected a known name" },
	{ "{\"stackTraceSelector\":{\"callSite\":[{\"name\":\"f\"},3]}}", "an object" },
	{ "{\"profileTypeID\":[]}", "profileTypeID: expected a string" },
};

TEST(names_what_is_wrong)
{
	for EACH (row, refused) {
		Querier__V1__SelectSeriesRequest *request = NULL;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, parse(row->text, &request, &err), row->text);
		if (!strstr(err.text, row->word))
			fail_msg("%s: \"%s\" lacks \"%s\"", row->text, err.text, row->word);
	}
}

TEST(writes_64_bit_integers_as_strings)
{
	Querier__V1__FlameGraph graph = QUERIER__V1__FLAME_GRAPH__INIT;
	Querier__V1__Level level = QUERIER__V1__LEVEL__INIT, *levels[] = { &level };
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	int64_t values[] = { 0, INT64_MAX, -1 };
	char *names[] = { "total", "a\"b" };

	level.n_values = 3;
	level.values = values;
	graph.n_levels = 1;
	graph.levels = levels;
	graph.n_names = 2;
	graph.names = names;
	graph.max_self = 7;
	message_json_append(&graph.base, &text);
	EXPECT_STR("{\"names\":[\"total\",\"a\\\"b\"],"
		   "\"levels\":[{\"values\":[\"0\",\"9223372036854775807\",\"-1\"]}],"
		   "\"maxSelf\":\"7\"}",
		   buffer_string(&text), "defaults are left out");
}

TEST(writes_doubles_and_booleans)
{
	Querier__V1__GetProfileStatsResponse stats = QUERIER__V1__GET_PROFILE_STATS_RESPONSE__INIT;
	Querier__V1__Point point = QUERIER__V1__POINT__INIT;
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	point.value = 0.1;
	point.timestamp = 5;
	message_json_append(&point.base, &text);
	stats.data_ingested = true;
	message_json_append(&stats.base, &text);
	EXPECT_STR("{\"value\":0.10000000000000001,\"timestamp\":\"5\"}{\"dataIngested\":true}",
		   buffer_string(&text), "text");
}

RUN_TESTS(cmocka_unit_test(reads_camel_case_and_numbers_in_strings),
	  cmocka_unit_test(names_what_is_wrong),
	  cmocka_unit_test(writes_64_bit_integers_as_strings),
	  cmocka_unit_test(writes_doubles_and_booleans))
