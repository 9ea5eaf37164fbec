// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "cli/http_client.h"

TEST(percent_encodes_parameters)
{
	struct buffer url = { 0 };

	buffer_append_string(&url, "http://h/api");
	http_append_parameter(&url, "query", "{service=\"a&b\"}");
	http_append_parameter(&url, "none", NULL);
	http_append_parameter(&url, "empty", "");
	http_append_parameter(&url, "text", "a b+\xc3\xa9~-_.%");
	EXPECT_STR("http://h/api?query=%7Bservice%3D%22a%26b%22%7D&empty="
		   "&text=a%20b%2B%C3%A9~-_.%25",
		   buffer_string(&url), "url");
	buffer_deinit(&url);
}

TEST(refuses_other_protocols)
{
	static const char *const urls[] = { "file:///etc/hostname", "ftp://127.0.0.1/",
					    "nonsense://x", "" };

	for EACH (url, urls) {
		struct http_request request = { .url = *url, .timeout_ms = 1000 };
		struct http_response response = { 0 };
		struct error err = { 0 };

		assert_int_not_equal(0, http_get(&request, &response, &err));
		EXPECT_EQ(0, response.body.size, *url);
		assert_int_not_equal(0, strlen(err.text));
		http_response_deinit(&response);
	}
}

RUN_TESTS(cmocka_unit_test(percent_encodes_parameters), cmocka_unit_test(refuses_other_protocols))
