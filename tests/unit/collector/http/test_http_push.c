// SPDX-License-Identifier: Apache-2.0
// Subject: collector/http/http_push.c
// Pushes over HTTP: bodies and their limits, who may send them, and each protocol's answers.
#include "tests/unit/collector/http/http_fixture.h"

#include "base/cleanup.h"
#include "tests/unit/base/import/otlp_recorded.h"
#include "tests/unit/collector/limits/limits_fixture.h"

#define INGEST "/ingest?name=web.cpu&from=1700000000"

/** POST @body; @headers end with "\r\n" each. */
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

TEST(answers_in_each_protocols_way)
{
	static const struct {
		const char *target, *headers, *body;
		size_t size;
		int status;
		const char *type, *answer, *what;
	} rows[] = {
		{ INGEST, "", "a 1\n", 4, 200, "application/json",
		  "{\"samples\":1,\"rows\":1,\"refused\":0,\"duplicate\":false,\"note\":\"\"}\n",
		  "folded" },
		{ INGEST "&format=jfr", "", "FLR", 3, 415, "application/json", "unsupported_format",
		  "jfr" },
		{ INGEST, "", "a\n", 2, 400, "application/json", "line 1", "malformed" },
		{ INGEST, "", "", 0, 200, "application/json", "{\"samples\":0,", "empty" },
		{ "/api/v1/push?service=x", "", "nonsense", 8, 400, "application/json", "pprof",
		  "no pprof" },
		{ "/api/v1/batches", "", "nonsense", 8, 400, "application/json", "ExportRequest",
		  "no batch" },
		{ "/push.v1.PusherService/Push", "Content-Type: application/proto\r\n", "", 0, 200,
		  "application/proto", "", "empty push" },
		{ "/push.v1.PusherService/Push", "Content-Type: application/json\r\n", "{}", 2, 200,
		  "application/json", "{}", "empty push in JSON" },
		{ "/push.v1.PusherService/Push", "Content-Type: application/json\r\n", "{", 1, 400,
		  "application/json",
		  "{\"code\":\"invalid_argument\",\"message\":\"JSON: malformed\"}", "half of it" },
		{ "/v1development/profiles", "Content-Type: application/x-protobuf\r\n", "\xff", 1,
		  400, "application/x-protobuf", "OTLP", "no OTLP" },
		{ "/v1development/profiles", "Content-Type: application/json\r\n", "{}", 2, 200,
		  "application/json", "{}", "empty OTLP in JSON" },
		{ "/v1development/profiles", "Content-Type: application/x-protobuf\r\n",
		  (const char *)otlp_recorded, sizeof(otlp_recorded), 200, "application/x-protobuf",
		  "", "OTLP" },
		{ "/v1development/profiles", "Content-Encoding: zstd\r\n", "x", 1, 415,
		  "application/json", "only gzip", "zstd" },
	};

	for EACH (row, rows) {
		struct fixture f;

		open_fixture(&f, 2);
		struct answer answer = post(&f, row->target, row->headers, row->body, row->size);
		EXPECT_EQ(row->status, answer.status, row->what);
		if (!memmem(answer.body, answer.body_size, row->answer, strlen(row->answer)))
			fail_msg("%s: %s", row->what, answer.body);
		if (!strstr(answer.bytes, row->type))
			fail_msg("%s: %s", row->what, answer.bytes);
		free(answer.bytes);
		assert_int_equal(0, f.bodies.bytes_taken);
		close_fixture(&f);
	}
}

TEST(a_tenant_over_its_rate_is_told_when)
{
	static const char *const targets[] = { INGEST, "/api/v1/push?service=x", "/api/v1/batches",
					       "/push.v1.PusherService/Push",
					       "/v1development/profiles" };
	struct limits_fixture limits;
	struct fixture f;

	open_fixture(&f, 2);
	limits_open(&limits, "tenants: {\"-\": {ingest-rate: 1MiB, ingest-burst: 1MiB}}\n");
	f.api.limits = f.api.doors.limits = limits.limits;
	limits_use(&limits, "", 101 << 20);
	for EACH (target, targets) {
		struct answer answer = post(&f, *target, "", "a 1\n", 4);

		EXPECT_EQ(429, answer.status, *target);
		assert_non_null(strstr(answer.bytes, "Retry-After: 1"));
		assert_non_null(strstr(answer.body, "\"code\":\"limit_exceeded\","
						    "\"field\":\"ingest-rate\",\"message\":"
						    "\"tenant -: ingest-rate: 1 MiB ("));
		free(answer.bytes);
	}
	EXPECT_EQ(ARRAY_SIZE(targets), refusals_of(&limits, "", LIMIT_INGEST_RATE), "each once");
	EXPECT_EQ(0, f.metrics.counters[METRIC_QUERIES_REFUSED], "they are no queries");
	assert_int_equal(0, f.bodies.bytes_taken);
	// Queries go on.
	struct answer answer = ask(&f, "GET", "/api/v1/merge?" RANGE, "");
	EXPECT_EQ(200, answer.status, "a query");
	free(answer.bytes);
	close_fixture(&f);
	limits_close(&limits);
}

TEST(foreign_pages_cannot_push)
{
	struct fixture f;

	open_fixture(&f, 2);
	// A profiler sends neither the header of other changes nor an origin.
	struct answer answer = post(&f, INGEST, "", "a 1\n", 4);
	assert_int_equal(200, answer.status);
	free(answer.bytes);
	answer = post(&f, INGEST, "Origin: http://evil.example\r\n", "a 2\n", 4);
	assert_int_equal(403, answer.status);
	free(answer.bytes);
	answer = post(&f, INGEST, "Sec-Fetch-Site: cross-site\r\n", "a 3\n", 4);
	assert_int_equal(403, answer.status);
	free(answer.bytes);
	assert_int_equal(1, f.metrics.counters[METRIC_PUSH_BATCHES]);
	close_fixture(&f);
}

TEST(bodies_have_limits)
{
	static const char huge[] =
		"POST " INGEST " HTTP/1.1\r\nHost: x\r\nContent-Length: 67108865\r\n\r\n";
	static const char chunked[] = "POST " INGEST " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
				      "Transfer-Encoding: chunked\r\n\r\n4\r\na 1\n\r\n0\r\n\r\n";
	char large[20000];
	struct fixture f;

	open_fixture(&f, 2);
	struct answer answer = ask_raw(&f, huge, sizeof(huge) - 1);
	assert_int_equal(413, answer.status);
	free(answer.bytes);
	answer = ask_raw(&f, chunked, sizeof(chunked) - 1);
	assert_int_equal(200, answer.status);
	free(answer.bytes);
	// Without memory the body is read, so that the client reads why.
	memset(large, '\n', sizeof(large));
	assert_true(byte_budget_take(&f.bodies, (256 << 20) - 1000));
	answer = post(&f, INGEST, "", large, sizeof(large));
	assert_int_equal(503, answer.status);
	assert_non_null(strstr(answer.bytes, "Retry-After: 5"));
	free(answer.bytes);
	byte_budget_give(&f.bodies, (256 << 20) - 1000);
	assert_int_equal(0, f.bodies.bytes_taken);
	// Only a push has a body.
	answer = post(&f, "/api/v1/boosts", "Cairn-Client: x\r\n", "a", 1);
	assert_int_equal(405, answer.status);
	free(answer.bytes);
	answer = ask(&f, "GET", "/ingest", "");
	assert_int_equal(405, answer.status);
	assert_true(has_header(&answer, "Allow: POST\r\n"));
	free(answer.bytes);
	close_fixture(&f);
}

TEST(failing_store_asks_for_another_try)
{
	static const int failures[] = { -EIO, -ENOSPC, -EAGAIN, -ENOMEM };

	for EACH (rc, failures) {
		struct fixture f;

		open_fixture(&f, 2);
		f.store->append_rc = *rc;
		struct answer answer = post(&f, INGEST, "", "a 1\n", 4);
		EXPECT_EQ(503, answer.status, strerror(-*rc));
		assert_true(has_header(&answer, "Retry-After: 5\r\n"));
		free(answer.bytes);
		assert_int_equal(1, f.metrics.counters[METRIC_PUSH_ERRORS]);
		close_fixture(&f);
	}
}

RUN_TESTS(cmocka_unit_test(a_tenant_over_its_rate_is_told_when),
	  cmocka_unit_test(answers_in_each_protocols_way),
	  cmocka_unit_test(foreign_pages_cannot_push), cmocka_unit_test(bodies_have_limits),
	  cmocka_unit_test(failing_store_asks_for_another_try))
