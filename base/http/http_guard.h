// SPDX-License-Identifier: Apache-2.0
// Which requests are refused because of where they come from. A browser sends requests for every page
// that it shows: without this check a foreign page could read profiles (by DNS rebinding: its own name
// resolves to our address) or change what is stored.
//
// Nothing here is a login: a program that is not a browser can send any header.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	HTTP_GUARD_NAMES_MAX = 64,       // of --http-host
	HTTP_GUARD_NAME_BYTES_MAX = 253, // of a name in DNS
	HTTP_REFUSAL_BYTES_MAX = 400,
};

// A request that changes something carries it, with any value. A cross-site form cannot send it, and a
// script of another site may only after a preflight request, which is not answered.
#define HTTP_CLIENT_HEADER "Cairn-Client"

/** The names by which browsers may call the server, besides addresses and names of this machine. */
struct http_guard {
	char *names[HTTP_GUARD_NAMES_MAX]; // lower-case
	uint32_t count;
};

/**
 * @address: the listener's, "host:port"; @names: more names with commas between, or NULL. Returns 0;
 * -EINVAL (@err names the bad one); -ENOMEM.
 */
int http_guard_init(struct http_guard *guard, const char *address, const char *names,
		    struct error *err);
void http_guard_deinit(struct http_guard *guard);

/** The headers that say where a request comes from; NULL: absent. */
struct http_caller {
	bool changes; // neither GET nor HEAD
	const char *host, *origin;
	const char *fetch_site, *fetch_mode, *fetch_destination; // Sec-Fetch-*
	const char *client;                                      // HTTP_CLIENT_HEADER
	const char *authorization;
};

struct http_refusal {
	int status; // 421 or 403
	const char *code;
	char message[HTTP_REFUSAL_BYTES_MAX];
};

/** May the request be answered? If not, @ret_refusal says why and what to do. */
bool http_guard_admits(const struct http_guard *guard, const struct http_caller *caller,
		       struct http_refusal *ret_refusal);
