// SPDX-License-Identifier: Apache-2.0
// HTTP requests of servers that send much or little, now or over minutes: by libcurl, which is loaded when it is first
// needed. With what it brings along it is 4 MB of memory and 10 ms of a start, for all who ask nobody.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	HTTP_FETCH_ERROR_BYTES_MAX = 256, // libcurl's CURL_ERROR_SIZE
};

struct http_fetcher;

struct http_fetch {
	const char *url;
	const char *protocols;     // "https", "http,https": of it and of what it redirects to
	uint32_t redirections_max; // 0: none is followed
	uint32_t connect_timeout_s;
	uint32_t silence_timeout_s; // without a byte; 0: no limit
	uint32_t timeout_s;         // of all of it
	const char *ca_file;        // NULL: the system's CAs
	const char *bearer_token;   // NULL: none
	const char *accept;         // NULL: anything
	const char *json;           // posted, of type application/json; NULL: GET
	const char *user, *key;     // ClickHouse's headers X-ClickHouse-User and -Key; NULL: none
	// To be sent by POST; NULL: nothing is, by GET.
	const void *body;
	size_t body_size;
	const char *body_type; // its Content-Type; NULL: bytes
	// What a server says with another status than 2xx, cut to size, as text; NULL: not wanted.
	char *refusal;
	size_t refusal_size;
	bool is_direct; // past any proxy of the environment
	/** The body of an answer with status 2xx, in parts. Not 0: end the transfer. */
	int (*on_bytes)(void *context, const void *bytes, size_t size);
	/** Asked once a second at least: end the transfer? */
	bool (*is_over)(void *context);
	void *context;
};

/** For one thread. Load it where no other thread does. Returns 0; -ENOENT: no libcurl; -ENOMEM; -EIO. */
int http_fetcher_open(struct http_fetcher **ret_fetcher, struct error *err);
/** NULL is allowed. */
void http_fetcher_close(struct http_fetcher *fetcher);

/**
 * Returns 0; -EREMOTEIO: another status than 2xx; -ECANCELED: on_bytes or is_over ended it; -EAGAIN: no answer, or not
 * the whole; -ENOMEM. *ret_status is the status, 0 if there was none. @err has libcurl's words.
 */
int http_fetch(struct http_fetcher *fetcher, const struct http_fetch *request, long *ret_status,
	       struct error *err);
