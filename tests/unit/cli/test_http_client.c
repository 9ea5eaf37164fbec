// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "cli/api_error.h"
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

		EXPECT_EQ(-EINVAL, http_get(&request, &response, &err), *url);
		EXPECT_EQ(0, response.body.size, *url);
		assert_int_not_equal(0, strlen(err.text));
		http_response_deinit(&response);
	}
}

TEST(tells_mistakes_from_failures)
{
	static const struct {
		const char *what, *url;
		struct http_security security;
		int rc;
		const char *text; // of the whole message
	} rows[] = {
		{ "no file of CAs",
		  "https://127.0.0.1:9",
		  { .tls_ca = "/absent" },
		  -EINVAL,
		  "--tls-ca: /absent: No such file or directory" },
		{ "no certificate",
		  "https://127.0.0.1:9",
		  { .tls_cert = "/absent", .tls_key = "/dev/null" },
		  -EINVAL,
		  "--tls-cert: /absent: No such file or directory" },
		{ "a certificate alone",
		  "https://127.0.0.1:9",
		  { .tls_cert = "/dev/null" },
		  -EINVAL,
		  "--tls-cert and --tls-key belong together" },
		{ "no token",
		  "http://127.0.0.1:9",
		  { .token_file = "/absent" },
		  -EINVAL,
		  "/absent: cannot read the token: No such file or directory" },
		{ "a token without TLS",
		  "http://192.0.2.1:9",
		  { .token_file = "/absent" },
		  -EINVAL,
		  "--token-file: everybody on the way to http://192.0.2.1:9 could read the token; "
		  "use https, or --insecure" },
		{ "nobody listens",
		  "http://127.0.0.1:9",
		  { 0 },
		  -ECONNREFUSED,
		  "no answer from http://127.0.0.1:9: Failed to connect to 127.0.0.1 port 9" },
	};

	for EACH (row, rows) {
		struct http_request request = { .url = row->url,
						.security = &row->security,
						.timeout_ms = 1000 };
		struct http_response response = { 0 };
		struct error cause = { 0 }, err = { 0 };

		EXPECT_EQ(row->rc, http_get(&request, &response, &cause), row->what);
		api_error_no_answer(row->url, row->rc, &cause, &err);
		if (strncmp(err.text, row->text, strlen(row->text)))
			EXPECT_STR(row->text, err.text, row->what);
		EXPECT_EQ(row->rc != -EINVAL, !!strstr(err.text, "is cairn-collector running"),
			  row->what);
		http_response_deinit(&response);
	}
}

RUN_TESTS(cmocka_unit_test(tells_mistakes_from_failures),
	  cmocka_unit_test(percent_encodes_parameters), cmocka_unit_test(refuses_other_protocols))
