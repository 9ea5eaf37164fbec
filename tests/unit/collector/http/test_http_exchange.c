// SPDX-License-Identifier: Apache-2.0
// What is read from headers, and the steps that series get.
#include "tests/test.h"

#include <errno.h>

#include "base/clock.h"
#include "collector/http/http_exchange.h"
#include "collector/http/http_handlers.h"

static const struct {
	const char *header;
	bool accepts;
} encodings[] = {
	{ NULL, false },
	{ "", false },
	{ "gzip", true },
	{ "GZIP", true },
	{ "br, gzip, deflate", true },
	{ "br,gzip;q=0.5", true },
	{ "gzip; q=1.0", true },
	{ "gzip;q=0", false },
	{ "gzip; q=0.000", false },
	{ "gzip;q=0.001", true },
	{ "*", true },
	{ "*;q=0", false },
	{ "identity", false },
	{ "xgzip", false },
	{ "gzipx", false },
	{ ",,, ,", false },
	{ "gzip;q", true },
	{ "gzip;q=", true },
};

TEST(parses_accept_encoding)
{
	for EACH (row, encodings)
		EXPECT_EQ(row->accepts, http_accepts_gzip(row->header),
			  row->header ? row->header : "none");
}

static const struct {
	const char *header;
	bool matches;
} etags[] = {
	{ "\"abc\"", true },
	{ "W/\"abc\"", true },
	{ "\"x\", \"abc\"", true },
	{ "\"x\" ,W/\"abc\"  ", true },
	{ "*", true },
	{ "", false },
	{ "\"ab\"", false },
	{ "\"abcd\"", false },
	{ "abc", false },
	{ "W/", false },
	{ ",", false },
};

TEST(compares_whole_etags)
{
	for EACH (row, etags)
		EXPECT_EQ(row->matches, http_etag_matches(row->header, "\"abc\""), row->header);
}

static const struct {
	const char *what;
	uint64_t range_s;
	uint64_t step_ms;
} steps[] = {
	{ "one second", 1, 20 },
	{ "six seconds", 6, 20 },
	{ "fifteen minutes", 15 * 60, 5000 },
	{ "an hour", 3600, 15000 },
	{ "a day", 86400, 300000 },
	{ "31 days", 31 * 86400, 10800000 },
};

TEST(default_steps_are_round)
{
	for EACH (row, steps) {
		uint64_t step_ns = api_default_step(row->range_s * NS_PER_SECOND);

		EXPECT_EQ(row->step_ms, step_ns / NS_PER_MS, row->what);
		assert_true(row->range_s * NS_PER_SECOND / step_ns <= 300);
	}
}

static const struct {
	int rc;
	int status;
	const char *code;
	uint32_t retry_after_s;
} failures[] = {
	{ -EINVAL, 400, "\"invalid_argument\"", 0 },
	{ -E2BIG, 413, "\"too_large\"", 0 },
	{ -EFBIG, 413, "\"too_large\"", 0 },
	{ -ETIMEDOUT, 413, "\"deadline_exceeded\"", 0 },
	{ -ENOMEM, 503, "\"out_of_memory\"", 5 },
	{ -EIO, 500, "\"internal\"", 0 },
	{ -EPERM, 500, "\"internal\"", 0 },
};

TEST(maps_errors_to_http_statuses)
{
	for EACH (row, failures) {
		struct http_response response = { .etag = "\"x\"", .disposition = "attachment" };
		struct error err;

		buffer_append_string(&response.body, "half an answer");
		error_set(&err, row->rc, "what \"failed\"");
		http_respond_failure(&response, &err, "query");
		EXPECT_EQ(row->status, response.status, row->code);
		EXPECT_EQ(row->retry_after_s, response.retry_after_s, row->code);
		assert_non_null(strstr(buffer_string(&response.body), row->code));
		assert_non_null(strstr(buffer_string(&response.body), "what \\\"failed\\\""));
		assert_null(strstr(buffer_string(&response.body), "half"));
		assert_null(response.etag);
		assert_null(response.disposition);
		http_response_deinit(&response);
	}
}

RUN_TESTS(cmocka_unit_test(parses_accept_encoding), cmocka_unit_test(compares_whole_etags),
	  cmocka_unit_test(default_steps_are_round), cmocka_unit_test(maps_errors_to_http_statuses))
