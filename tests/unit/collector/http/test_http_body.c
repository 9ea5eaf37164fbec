// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_body.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

TEST(a_put_needs_a_content_length)
{
	const char *refused[] = { NULL, "", "many", "12 " };
	struct http_body body = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct http_response response = { 0 };

		EXPECT_EQ(false, http_body_begin_put(&body, refused[i], &response),
			  refused[i] ? refused[i] : "absent");
		EXPECT_EQ(411, response.status, "status");
		http_response_deinit(&response);
	}

	struct http_response response = { 0 };
	assert_true(http_body_begin_put(&body, "12", &response));
	assert_int_equal(body.bytes_max, 12);
	assert_int_equal(body.fd, -1);
}

TEST(a_file_takes_no_more_than_was_announced)
{
	_cleanup_close_ int fd = memfd_create("body", MFD_CLOEXEC);
	struct http_body body = { .fd = fd, .bytes_max = 8 };
	char bytes[9] = { 0 };

	assert_true(http_body_receive(&body, "12345", 5));
	assert_true(http_body_receive(&body, "678", 3));
	assert_false(http_body_receive(&body, "9", 1));
	assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), 8);
	assert_memory_equal(bytes, "12345678", 8);
}

TEST(unwritable_file_ends_connection)
{
	_cleanup_close_ int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct http_body body = { .fd = fd, .bytes_max = 8 };

	assert_false(http_body_receive(&body, "1", 1));
}

TEST(pushes_are_judged_by_their_headers)
{
	static const struct {
		const char *length;
		const char *encoding;
		int status; // 0: received
		uint64_t bytes_max;
	} rows[] = {
		{ "100", NULL, 0, 100 },   { "101", NULL, 413, 101 },
		{ NULL, "gzip", 0, 100 },  { "7", "GZip", 0, 7 },
		{ "7", "identity", 0, 7 }, { "7", "", 0, 7 },
		{ "7", "br", 415, 7 },     { "99999999999999999999", NULL, 413, UINT64_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_body body = { 0 };
		struct http_response response = { 0 };

		EXPECT_EQ(rows[i].status == 0,
			  http_body_begin_push(&body, rows[i].length, rows[i].encoding, 100, NULL,
					       &response),
			  "received");
		EXPECT_EQ(rows[i].status, response.status, "status");
		EXPECT_EQ(rows[i].bytes_max, body.bytes_max, "bytes expected");
		http_response_deinit(&response);
		http_body_deinit(&body);
	}
}

/** Its client can only read why once all was received. */
TEST(refuses_push_without_memory_at_end)
{
	struct http_body body = { 0 };
	struct http_response response = { 0 };

	assert_true(http_body_begin_push(&body, NULL, NULL, 4, NULL, &response));
	assert_true(http_body_receive(&body, "1234", 4));
	assert_true(http_body_end(&body, &response));
	assert_true(http_body_receive(&body, "5", 1));
	assert_int_equal(body.memory.capacity, 0);
	assert_true(http_body_receive(&body, "6", 1));
	assert_false(http_body_end(&body, &response));
	assert_int_equal(response.status, 413);
	http_response_deinit(&response);
}

TEST(a_push_beyond_the_budget_may_come_again)
{
	struct byte_budget budget = { .bytes_max = 1024 };
	struct http_body body = { 0 };
	struct http_response response = { 0 };
	char bytes[4096] = { 0 };

	assert_true(http_body_begin_push(&body, NULL, NULL, 1 << 20, &budget, &response));
	assert_true(http_body_receive(&body, bytes, sizeof(bytes)));
	assert_false(http_body_end(&body, &response));
	assert_int_equal(response.status, 503);
	assert_int_equal(response.retry_after_s, 5);
	assert_int_equal(budget.bytes_taken, 0);
	http_response_deinit(&response);
	http_body_deinit(&body);
}

RUN_TESTS(cmocka_unit_test(a_put_needs_a_content_length),
	  cmocka_unit_test(a_file_takes_no_more_than_was_announced),
	  cmocka_unit_test(unwritable_file_ends_connection),
	  cmocka_unit_test(pushes_are_judged_by_their_headers),
	  cmocka_unit_test(refuses_push_without_memory_at_end),
	  cmocka_unit_test(a_push_beyond_the_budget_may_come_again))
