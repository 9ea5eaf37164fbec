// SPDX-License-Identifier: Apache-2.0
// Any lines as the headers by which the collector judges where a request comes from. A request for what
// is no host, or from what is no site, is never admitted.

#include <stdlib.h>
#include <string.h>

#include "base/http/http_guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/** The next line; NULL when there are no more. */
static const char *next_line(char **rest)
{
	return *rest ? strsep(rest, "\n") : NULL;
}

/** Has it a byte that is in no host's name and no address? */
static bool is_no_host(const char *text)
{
	return strpbrk(text, "@/\\%?#, \t\r");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const names = "node.lan,localhost";
	struct http_guard guard;
	struct http_refusal refusal = { 0 };
	char text[4096], *rest = text;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, bytes, size);
	text[size] = '\0';
	const struct http_caller caller = {
		.changes = size % 2,
		.host = next_line(&rest),
		.origin = next_line(&rest),
		.fetch_site = next_line(&rest),
		.fetch_mode = next_line(&rest),
		.fetch_destination = next_line(&rest),
		.client = next_line(&rest),
		.authorization = next_line(&rest),
	};
	check(http_guard_init(&guard, "127.0.0.1:7070", names, NULL) == 0);
	bool admitted = http_guard_admits(&guard, &caller, &refusal);
	check(admitted || ((refusal.status == 421 || refusal.status == 403) &&
			   strlen(refusal.message) < HTTP_REFUSAL_BYTES_MAX));
	check(!admitted || !caller.host || !is_no_host(caller.host));
	check(!admitted || !caller.origin || strncmp(caller.origin, "http", 4) == 0);
	http_guard_deinit(&guard);
	// The same text as the operator's names: refused, or admitted as they are.
	if (http_guard_init(&guard, "127.0.0.1:7070", caller.host, NULL) == 0)
		http_guard_deinit(&guard);
	return 0;
}
