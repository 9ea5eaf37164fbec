// SPDX-License-Identifier: Apache-2.0
// Pyroscope's query API over HTTP: codecs, statuses and Connect's errors. The methods: tests/unit/collector/pyroscope.
#include "tests/unit/collector/http/http_fixture.h"

#include "base/cleanup.h"
#include "collector/pyroscope/querier.h"

#define METHOD(name) "/querier.v1.QuerierService/" name
#define JSON         "Content-Type: application/json\r\n"
#define PROTO        "Content-Type: application/proto\r\n"
#define TIMES        "\"start\":\"1000000\",\"end\":\"1002000\""

static struct answer post(const struct fixture *f, const char *target, const char *headers,
			  const void *body, size_t size)
{
	_cleanup_(buffer_deinit) struct buffer request = { 0 };

	buffer_printf(
		&request,
		"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n",
		target, headers, size);
	buffer_append(&request, body, size);
	return ask_raw(f, (const char *)request.bytes, request.size);
}

static const struct {
	const char *target, *headers, *body;
	int status;
	const char *type, *answer;
} rows[] = {
	{ METHOD("LabelValues"), JSON, "{\"name\":\"service_name\"," TIMES "}", 200,
	  "Content-Type: application/json", "{\"names\":[\"llm\"]}" },
	{ METHOD("LabelValues"), "Content-Type: application/json; charset=utf-8\r\n",
	  "{\"name\":\"node\"," TIMES "}", 200, "Content-Type: application/json", "[\"a\",\"b\"]" },
	{ METHOD("ProfileTypes"), PROTO, "", 200, "Content-Type: application/proto", "" },
	{ METHOD("ProfileTypes"), JSON, "", 200, "Content-Type: application/json", "{}" },
	{ METHOD("ProfileTypes"), JSON, "{", 400, "Content-Type: application/json",
	  "{\"code\":\"invalid_argument\",\"message\":\"JSON, line 1" },
	{ METHOD("ProfileTypes"), PROTO, "\xff", 400, "Content-Type: application/json",
	  "{\"code\":\"invalid_argument\"" },
	{ METHOD("ProfileTypes"), "Content-Type: text/plain\r\n", "{}", 415, "application/json",
	  "Content-Type: expected" },
	{ METHOD("AnalyzeQuery"), JSON, "{}", 501, "application/json",
	  "\"code\":\"unimplemented\"" },
	{ METHOD("ProfileTypes"), JSON "Content-Encoding: br\r\n", "{}", 415, "application/json",
	  "only gzip" },
};

TEST(answers_in_connects_way)
{
	for EACH (row, rows) {
		struct fixture f;

		open_fixture(&f, 2);
		struct answer answer =
			post(&f, row->target, row->headers, row->body, strlen(row->body));
		EXPECT_EQ(row->status, answer.status, row->answer);
		if (!memmem(answer.body, answer.body_size, row->answer, strlen(row->answer)))
			fail_msg("%s: %s", row->answer, answer.body);
		if (!strstr(answer.bytes, row->type))
			fail_msg("%s: %s", row->answer, answer.bytes);
		free(answer.bytes);
		close_fixture(&f);
	}
}

TEST(a_body_is_bounded)
{
	_cleanup_free_ char *body = calloc(1, QUERIER_BODY_BYTES_MAX + 1);
	struct fixture f;

	assert_non_null(body);
	open_fixture(&f, 2);
	struct answer answer =
		post(&f, METHOD("ProfileTypes"), JSON, body, QUERIER_BODY_BYTES_MAX + 1);
	EXPECT_EQ(413, answer.status, "one byte too many");
	free(answer.bytes);
	answer = ask(&f, "GET", METHOD("ProfileTypes"), "");
	EXPECT_EQ(405, answer.status, "GET");
	free(answer.bytes);
	close_fixture(&f);
}

TEST(render_answers_by_get)
{
	struct fixture f;

	open_fixture(&f, 2);
	struct answer answer = ask(&f, "GET",
				   "/pyroscope/render?from=1000&until=1002&query=" PROFILE_TYPE_CPU
				   "{service_name=%22llm%22}",
				   "");
	EXPECT_EQ(200, answer.status, "render");
	assert_non_null(strstr(answer.body, "\"numTicks\":1000000000,"));
	free(answer.bytes);
	answer = ask(&f, "GET", "/pyroscope/render?format=dot&query=" PROFILE_TYPE_CPU "{}", "");
	EXPECT_EQ(501, answer.status, "DOT");
	free(answer.bytes);
	answer = ask(&f, "GET", "/pyroscope/render", "");
	EXPECT_EQ(400, answer.status, "without a query");
	assert_non_null(strstr(answer.body, "query: is missing"));
	free(answer.bytes);
	close_fixture(&f);
}

RUN_TESTS(cmocka_unit_test(answers_in_connects_way), cmocka_unit_test(a_body_is_bounded),
	  cmocka_unit_test(render_answers_by_get))
