// SPDX-License-Identifier: Apache-2.0
// Methods over a small store, asked in JSON, and once in protobuf.
#include "tests/test.h"

#include <errno.h>

#include "base/clock.h"
#include "collector/pyroscope/querier.h"
#include "collector/pyroscope/render.h"
#include "querier/v1/querier.pb-c.h"
#include "tests/unit/collector/store/memory_store.h"

#define BEGIN_MS 1000000
#define RANGE    "\"start\":\"1000000\",\"end\":\"1002000\""
#define CPU      "\"profileTypeID\":\"" PROFILE_TYPE_CPU "\""

static void add_function(struct store *store, const char *name)
{
	struct location location = { .kind = FRAME_KIND_NATIVE,
				     .id = id128_of(name, strlen(name)) };
	struct line line = { 0 };
	uint32_t number;

	assert_int_equal(0, profile_add_string(store->profile, name, &line.name));
	assert_int_equal(0, profile_add_location(store->profile, &location, &line, 1, &number));
}

static void add_series(struct store *store, const char *service, const char *pod, const char *type)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };

	assert_int_equal(0, labels_set(&labels, "service", service));
	assert_int_equal(0, labels_set(&labels, "pod", pod));
	memory_store_add_series(store, &labels, type);
}

/** main calls f for 3 and g for 1 in web-0, and f for 5 in web-1; a second service waits. */
static struct store *small_store(void)
{
	static const struct {
		uint32_t series, leaf;
		uint64_t ms;
		int64_t value;
	} samples[] = { { 0, 1, 100, 3 }, { 0, 2, 1100, 1 }, { 1, 1, 1500, 5 }, { 2, 1, 10, 9 } };
	struct store *store = memory_store_new(NS_PER_SECOND);

	add_function(store, "main");
	add_function(store, "f");
	add_function(store, "g");
	add_series(store, "web", "web-0", PROFILE_TYPE_CPU);
	add_series(store, "web", "web-1", PROFILE_TYPE_CPU);
	add_series(store, "llm", "llm-0", PROFILE_TYPE_OFF_CPU);
	for EACH (row, samples) {
		struct memory_sample sample = {
			.series = row->series,
			.slot_ns = 10 * NS_PER_MS,
			.time_ns = (BEGIN_MS + row->ms) * NS_PER_MS,
			.locations = { row->leaf, 0 },
			.location_count = 2,
			.value = row->value,
		};
		memory_store_add(store, &sample);
	}
	return store;
}

static int ask(const char *method, const char *request, struct buffer *answer, struct error *err)
{
	struct store *store = small_store();
	const struct querier_call call = {
		.store = store,
		.tenant = SELECTOR_ALL_TENANTS,
		.now_ns = (BEGIN_MS + 2000) * NS_PER_MS,
		.is_json = true,
		.answer = answer,
	};
	int rc = querier_answer(&call, method, request, strlen(request), err);

	store_close(store);
	return rc;
}

static const struct {
	const char *what, *method, *request, *answer;
} cases[] = {
	{ "types", "ProfileTypes", "{" RANGE "}",
	  "{\"profileTypes\":[{\"ID\":\"off_cpu:blocked:nanoseconds:wall:nanoseconds\","
	  "\"name\":\"off_cpu\",\"sampleType\":\"blocked\",\"sampleUnit\":\"nanoseconds\","
	  "\"periodType\":\"wall\",\"periodUnit\":\"nanoseconds\"},"
	  "{\"ID\":\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\",\"name\":\"process_cpu\","
	  "\"sampleType\":\"cpu\",\"sampleUnit\":\"nanoseconds\",\"periodType\":\"cpu\","
	  "\"periodUnit\":\"nanoseconds\"}]}" },
	{ "the last hour", "LabelValues", "{\"name\":\"service_name\"}",
	  "{\"names\":[\"llm\",\"web\"]}" },
	{ "names", "LabelNames", "{" RANGE "}",
	  "{\"names\":[\"__name__\",\"__period_type__\",\"__period_unit__\",\"__profile_type__\","
	  "\"__type__\",\"__unit__\",\"pod\",\"service_name\"]}" },
	{ "names of nothing", "LabelNames",
	  "{\"matchers\":[\"{service_name=\\\"x\\\"}\"]," RANGE "}", "{}" },
	{ "values of a type", "LabelValues",
	  "{\"name\":\"pod\",\"matchers\":[\"{__profile_type__=\\\"" PROFILE_TYPE_CPU
	  "\\\"}\"]," RANGE "}",
	  "{\"names\":[\"web-0\",\"web-1\"]}" },
	{ "types as values", "LabelValues", "{\"name\":\"__type__\"," RANGE "}",
	  "{\"names\":[\"blocked\",\"cpu\"]}" },
	{ "series", "Series", "{\"labelNames\":[\"service_name\",\"__profile_type__\"]," RANGE "}",
	  "{\"labelsSet\":[{\"labels\":[{\"name\":\"__profile_type__\",\"value\":"
	  "\"" PROFILE_TYPE_CPU "\"},{\"name\":\"service_name\",\"value\":\"web\"}]},"
	  "{\"labels\":[{\"name\":\"__profile_type__\",\"value\":\"" PROFILE_TYPE_OFF_CPU
	  "\"},{\"name\":\"service_name\",\"value\":\"llm\"}]}]}" },
	{ "either matcher", "Series",
	  "{\"labelNames\":[\"pod\"],\"matchers\":[\"{pod=\\\"web-1\\\"}\",\"{pod=~\\\"web.*\\\"}"
	  "\"]," RANGE "}",
	  "{\"labelsSet\":[{\"labels\":[{\"name\":\"pod\",\"value\":\"web-1\"}]},"
	  "{\"labels\":[{\"name\":\"pod\",\"value\":\"web-0\"}]}]}" },
	{ "flame graph", "SelectMergeStacktraces",
	  "{" CPU ",\"labelSelector\":\"{service_name=\\\"web\\\"}\",\"maxNodes\":\"16\"," RANGE
	  "}",
	  "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"f\",\"g\"],\"levels\":["
	  "{\"values\":[\"0\",\"9\",\"0\",\"0\"]},{\"values\":[\"0\",\"9\",\"0\",\"1\"]},"
	  "{\"values\":[\"0\",\"8\",\"8\",\"2\",\"0\",\"1\",\"1\",\"3\"]}],"
	  "\"total\":\"9\",\"maxSelf\":\"8\"}}" },
	{ "few nodes", "SelectMergeStacktraces", "{" CPU ",\"maxNodes\":3," RANGE "}",
	  "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"f\",\"other\"],\"levels\":["
	  "{\"values\":[\"0\",\"9\",\"0\",\"0\"]},{\"values\":[\"0\",\"9\",\"0\",\"1\"]},"
	  "{\"values\":[\"0\",\"8\",\"8\",\"2\",\"0\",\"1\",\"1\",\"3\"]}],"
	  "\"total\":\"9\",\"maxSelf\":\"8\"}}" },
	{ "a call site", "SelectMergeStacktraces",
	  "{" CPU
	  ",\"stackTraceSelector\":{\"callSite\":[{\"name\":\"main\"},{\"name\":\"g\"}]}," RANGE
	  "}",
	  "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"g\"],\"levels\":["
	  "{\"values\":[\"0\",\"1\",\"0\",\"0\"]},{\"values\":[\"0\",\"1\",\"0\",\"1\"]},"
	  "{\"values\":[\"0\",\"1\",\"1\",\"2\"]}],\"total\":\"1\",\"maxSelf\":\"1\"}}" },
	{ "no spans", "SelectMergeStacktraces", "{" CPU ",\"spanSelector\":[\"9a51\"]," RANGE "}",
	  "{\"flamegraph\":{}}" },
	{ "no span profiles", "SelectMergeSpanProfile",
	  "{" CPU ",\"spanSelector\":[\"9a51\"]," RANGE "}", "{\"flamegraph\":{}}" },
	{ "diff", "Diff",
	  "{\"left\":{" CPU ",\"labelSelector\":\"{pod=\\\"web-0\\\"}\"," RANGE "},\"right\":{" CPU
	  ",\"labelSelector\":\"{pod=\\\"web-1\\\"}\"," RANGE "}}",
	  "{\"flamegraph\":{\"names\":[\"total\",\"main\",\"f\",\"g\"],\"levels\":["
	  "{\"values\":[\"0\",\"4\",\"0\",\"0\",\"5\",\"0\",\"0\"]},"
	  "{\"values\":[\"0\",\"4\",\"0\",\"0\",\"5\",\"0\",\"1\"]},"
	  "{\"values\":[\"0\",\"3\",\"3\",\"0\",\"5\",\"5\",\"2\",\"0\",\"1\",\"1\",\"0\",\"0\","
	  "\"0\",\"3\"]}],"
	  "\"total\":\"9\",\"maxSelf\":\"5\",\"leftTicks\":\"4\",\"rightTicks\":\"5\"}}" },
	{ "series over time", "SelectSeries",
	  "{" CPU ",\"groupBy\":[\"service_name\",\"__profile_type__\"],\"step\":1," RANGE "}",
	  "{\"series\":[{\"labels\":[{\"name\":\"service_name\",\"value\":\"web\"}],\"points\":["
	  "{\"value\":3,\"timestamp\":\"1000000\"},{\"value\":6,\"timestamp\":\"1001000\"}]}]}" },
	{ "a month has no heat then", "SelectHeatmap",
	  "{" CPU ",\"labelSelector\":\"{pod=\\\"x\\\"}\",\"start\":1,\"end\":\"2678000000\"}",
	  "{}" },
	{ "the largest one", "SelectSeries",
	  "{" CPU ",\"groupBy\":[\"service_name\",\"pod\"],\"step\":2,\"limit\":\"1\"," RANGE "}",
	  "{\"series\":[{\"labels\":[{\"name\":\"pod\",\"value\":\"web-1\"},"
	  "{\"name\":\"service_name\",\"value\":\"web\"}],\"points\":["
	  "{\"value\":5,\"timestamp\":\"1000000\"}]}]}" },
};

TEST(methods_answer)
{
	for EACH (row, cases) {
		_cleanup_(buffer_deinit) struct buffer answer = { 0 };
		struct error err = { 0 };

		if (ask(row->method, row->request, &answer, &err))
			fail_msg("%s: %s", row->what, err.text);
		EXPECT_STR(row->answer, buffer_string(&answer), row->what);
	}
}

static const struct {
	const char *method, *request;
	int rc;
	const char *word;
} refused[] = {
	{ "AnalyzeQuery", "{}", -ENOSYS, "AnalyzeQuery" },
	{ "SelectSeries", "{\"profileTypeID\":\"cpu\"}", -EINVAL, "five parts" },
	{ "SelectSeries", "{" CPU ",\"labelSelector\":\"{x\"}", -EINVAL, "column" },
	{ "SelectSeries", "{" CPU ",\"step\":-1}", -EINVAL, "step" },
	{ "SelectSeries", "{" CPU ",\"step\":\"nan\"}", -EINVAL, "step" },
	{ "SelectSeries", "{" CPU ",\"groupBy\":[\"a,b\"]}", -EINVAL, "group_by" },
	{ "SelectSeries", "{" CPU ",\"start\":\"5\",\"end\":\"4\"}", -EINVAL, "in order" },
	{ "SelectSeries", "{" CPU ",\"end\":\"9223372036854775807\"}", -EINVAL, "milliseconds" },
	{ "SelectSeries", "{" CPU ",\"start\":1,\"end\":\"99999999999\"}", -EINVAL, "31 days" },
	{ "SelectMergeStacktraces", "{" CPU ",\"format\":\"PROFILE_FORMAT_DOT\"}", -ENOSYS,
	  "format" },
	{ "LabelValues", "{}", -EINVAL, "name" },
	{ "Diff", "{\"left\":{" CPU "}}", -EINVAL, "both" },
};

TEST(refusals_say_why)
{
	for EACH (row, refused) {
		_cleanup_(buffer_deinit) struct buffer answer = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->rc, ask(row->method, row->request, &answer, &err), row->request);
		if (!strstr(err.text, row->word))
			fail_msg("%s: \"%s\" lacks \"%s\"", row->request, err.text, row->word);
	}
}

TEST(protobuf_says_the_same)
{
	Querier__V1__SelectMergeStacktracesRequest request =
		QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
	_cleanup_(buffer_deinit) struct buffer answer = { 0 };
	struct store *store = small_store();
	const struct querier_call call = { .store = store,
					   .tenant = SELECTOR_ALL_TENANTS,
					   .answer = &answer };
	uint8_t bytes[256];
	struct error err = { 0 };

	request.profile_typeid = (char *)PROFILE_TYPE_CPU;
	request.label_selector = (char *)"{}";
	request.start = BEGIN_MS;
	request.end = BEGIN_MS + 2000;
	size_t size = querier__v1__select_merge_stacktraces_request__pack(&request, bytes);
	assert_int_equal(0, querier_answer(&call, "SelectMergeStacktraces", bytes, size, &err));
	Querier__V1__SelectMergeStacktracesResponse *response =
		querier__v1__select_merge_stacktraces_response__unpack(NULL, answer.size,
								       answer.bytes);
	assert_non_null(response);
	EXPECT_EQ(9, response->flamegraph->total, "total");
	EXPECT_EQ(3, response->flamegraph->n_levels, "levels");
	EXPECT_EQ(8, response->flamegraph->levels[2]->n_values, "two nodes of four numbers");
	querier__v1__select_merge_stacktraces_response__free_unpacked(response, NULL);
	EXPECT_EQ(-EINVAL, querier_answer(&call, "Series", "\xff\xff", 2, &err), "no protobuf");
	store_close(store);
}

static const char *parameter(const void *context, const char *name)
{
	const char *const *pairs = context;

	for (; *pairs; pairs += 2)
		if (strcmp(pairs[0], name) == 0)
			return pairs[1];
	return "";
}

TEST(render_has_a_timeline)
{
	static const char *const parameters[] = {
		"query",   PROFILE_TYPE_CPU "{service_name=\"web\"}",
		"from",    "1000000000", // milliseconds would have 13 digits
		"until",   "1000000015",
		"groupBy", "pod",
		NULL,
	};
	_cleanup_(buffer_deinit) struct buffer answer = { 0 };
	struct store *store = small_store();
	const struct querier_call call = { .store = store,
					   .tenant = SELECTOR_ALL_TENANTS,
					   .now_ns = 1000000015 * NS_PER_SECOND,
					   .answer = &answer };
	struct error err = { 0 };

	assert_int_equal(0, pyroscope_render(&call, parameter, parameters, &err));
	EXPECT_STR("{\"version\":1,\"flamebearer\":{\"names\":[\"total\"],\"levels\":[[0,0,0,0]],"
		   "\"numTicks\":0,\"maxSelf\":0},\"metadata\":{\"format\":\"single\","
		   "\"spyName\":\"cairn\",\"sampleRate\":1000000000,\"units\":\"samples\","
		   "\"name\":\"cpu\"},\"timeline\":{\"startTime\":999999990,\"samples\":[0,0],"
		   "\"durationDelta\":15,\"watermarks\":{}},\"groups\":{},\"heatmap\":null,"
		   "\"leftTicks\":0,\"rightTicks\":0}\n",
		   buffer_string(&answer), "nothing was stored then");
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(methods_answer), cmocka_unit_test(refusals_say_why),
	  cmocka_unit_test(protobuf_says_the_same), cmocka_unit_test(render_has_a_timeline))
