// SPDX-License-Identifier: Apache-2.0
#include "base/http/http_guard.h"

#include <errno.h>
#include <string.h>

#include "tests/test.h"

#define LISTED "profiles.example.org,collector"

static const struct {
	const char *what;
	struct http_caller caller;
	int status; // 0: admitted
} callers[] = {
	{ "curl at an address", { .host = "127.0.0.1:7070" }, 0 },
	{ "at an IPv6 address", { .host = "[::1]:7070" }, 0 },
	{ "at another of its addresses", { .host = "192.0.2.7" }, 0 },
	{ "a port forward", { .host = "localhost:9999" }, 0 },
	{ "a loopback name", { .host = "cairn.localhost:7070" }, 0 },
	{ "in capitals", { .host = "LOCALHOST" }, 0 },
	{ "with the root's dot", { .host = "localhost.:7070" }, 0 },
	{ "the listen address's host", { .host = "node7:7070" }, 0 },
	{ "a listed name", { .host = "Profiles.Example.ORG" }, 0 },
	{ "a listed name and a port", { .host = "collector:7070" }, 0 },
	{ "HTTP/1.0 without a name", { .host = NULL }, 0 },
	{ "DNS rebinding", { .host = "evil.example" }, 421 },
	{ "DNS rebinding to our port", { .host = "evil.example:7070" }, 421 },
	{ "a name that begins like ours", { .host = "localhost.evil.example" }, 421 },
	{ "a name that ends like ours", { .host = "evilcollector" }, 421 },
	{ "an address as a name", { .host = "127.0.0.1.evil.example" }, 421 },
	{ "a number that a browser never sends", { .host = "2130706433" }, 421 },
	{ "empty", { .host = "" }, 421 },
	{ "only a port", { .host = ":7070" }, 421 },
	{ "a user", { .host = "localhost@evil.example" }, 421 },
	{ "a port in words", { .host = "localhost:http" }, 421 },
	{ "an open bracket", { .host = "[::1" }, 421 },
	{ "a name in brackets", { .host = "[localhost]" }, 421 },
	{ "spaces", { .host = "localhost evil" }, 421 },

	{ "our page's script", { .host = "localhost:7070", .fetch_site = "same-origin" }, 0 },
	{ "a person at the address bar",
	  { .host = "localhost:7070",
	    .fetch_site = "none",
	    .fetch_mode = "navigate",
	    .fetch_destination = "document" },
	  0 },
	{ "a link in a chat",
	  { .host = "localhost:7070",
	    .fetch_site = "cross-site",
	    .fetch_mode = "navigate",
	    .fetch_destination = "document" },
	  0 },
	{ "another site's script",
	  { .host = "localhost:7070", .fetch_site = "cross-site", .fetch_mode = "no-cors" },
	  403 },
	{ "another port's script",
	  { .host = "localhost:7070", .fetch_site = "same-site", .fetch_mode = "no-cors" },
	  403 },
	{ "another site's frame",
	  { .host = "localhost:7070",
	    .fetch_site = "cross-site",
	    .fetch_mode = "navigate",
	    .fetch_destination = "iframe" },
	  403 },
	{ "another site's form",
	  { .changes = true,
	    .host = "localhost:7070",
	    .fetch_site = "cross-site",
	    .fetch_mode = "navigate",
	    .fetch_destination = "document",
	    .client = "forged" },
	  403 },

	{ "our origin", { .host = "localhost:7070", .origin = "http://localhost:7070" }, 0 },
	{ "behind a proxy with TLS",
	  { .host = "127.0.0.1:7070", .origin = "https://profiles.example.org" },
	  0 },
	{ "another origin", { .host = "localhost:7070", .origin = "http://evil.example" }, 403 },
	{ "another port", { .host = "localhost:7070", .origin = "http://localhost:3000" }, 403 },
	{ "a file or a sandbox", { .host = "localhost:7070", .origin = "null" }, 403 },
	{ "another scheme",
	  { .host = "localhost:7070", .origin = "chrome-extension://localhost:7070" },
	  403 },
	{ "no scheme", { .host = "localhost:7070", .origin = "localhost:7070" }, 403 },

	{ "cairn upload", { .changes = true, .host = "localhost", .client = "cairn" }, 0 },
	{ "with a token",
	  { .changes = true, .host = "localhost", .authorization = "Bearer x" },
	  0 },
	{ "without a header", { .changes = true, .host = "localhost" }, 403 },
};

TEST(admits_our_page_and_programs_only)
{
	struct http_guard guard;
	struct error err = { 0 };

	assert_int_equal(0, http_guard_init(&guard, "node7:7070", LISTED, &err));
	for EACH (row, callers) {
		struct http_refusal refusal = { 0 };
		bool admitted = http_guard_admits(&guard, &row->caller, &refusal);

		EXPECT_EQ(row->status == 0, admitted, row->what);
		EXPECT_EQ(row->status, refusal.status, row->what);
		if (row->status)
			assert_true(strlen(refusal.message) > 20);
		if (row->status == 421 && !strstr(refusal.message, "--http-host"))
			fail_msg("%s: no remedy: %s", row->what, refusal.message);
	}
	http_guard_deinit(&guard);
}

TEST(a_wildcard_address_lists_no_name)
{
	static const char *const addresses[] = { "0.0.0.0:7070", ":7070", "[::]:7070",
						 "unix:/run/x.sock" };
	const struct http_caller caller = { .host = "evil.example" };

	for EACH (address, addresses) {
		struct http_guard guard;
		struct http_refusal refusal;

		assert_int_equal(0, http_guard_init(&guard, *address, NULL, NULL));
		EXPECT_EQ(false, http_guard_admits(&guard, &caller, &refusal), *address);
		http_guard_deinit(&guard);
	}
}

static const struct {
	const char *what, *names;
} wrong[] = {
	{ "a scheme", "http://profiles.example.org" },
	{ "a port", "profiles.example.org:443" },
	{ "a pattern", "*.example.org" },
	{ "an empty one", "a,,b" },
	{ "spaces", "a, b" },
};

TEST(refuses_what_is_not_a_name)
{
	for EACH (row, wrong) {
		struct http_guard guard;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, http_guard_init(&guard, "127.0.0.1:0", row->names, &err),
			  row->what);
		if (!strstr(err.text, "http-host"))
			fail_msg("%s: %s", row->what, err.text);
	}
}

RUN_TESTS(cmocka_unit_test(admits_our_page_and_programs_only),
	  cmocka_unit_test(a_wildcard_address_lists_no_name),
	  cmocka_unit_test(refuses_what_is_not_a_name))
