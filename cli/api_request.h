// SPDX-License-Identifier: Apache-2.0
// A request to a collector's HTTP API: its address, a selector and a time range.
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "base/error.h"
#include "cli/http_client.h"

struct api_request {
	char *from, *to; // owned
	char *collector_http;
	uint64_t timeout_ns;
	struct http_security security;
	const char *selector; // of the command line
};

#define API_REQUEST_COLLECTOR "http://127.0.0.1:7070" // unless a flag says another one

/* The flags that fill it, for a command's options; @from_text, @to_text: the defaults. */
#define API_REQUEST_OPTIONS_OF(request, from_text, to_text)               \
	{                                                                 \
		"from", 0, CONFIG_STRING, &(request)->from,    from_text, \
		0,      0, "TIME",        "begin of the range"            \
	},                                                                \
		{ "to",                                                   \
		  0,                                                      \
		  CONFIG_STRING,                                          \
		  &(request)->to,                                         \
		  to_text,                                                \
		  0,                                                      \
		  0,                                                      \
		  "TIME",                                                 \
		  "end of the range, itself not included" },              \
		{ "collector-http",                                       \
		  0,                                                      \
		  CONFIG_STRING,                                          \
		  &(request)->collector_http,                             \
		  API_REQUEST_COLLECTOR,                                  \
		  0,                                                      \
		  0,                                                      \
		  "URL",                                                  \
		  "where the collector answers" },                        \
		{ "timeout",                                              \
		  0,                                                      \
		  CONFIG_DURATION,                                        \
		  &(request)->timeout_ns,                                 \
		  "60s",                                                  \
		  100 * NS_PER_MS,                                        \
		  3600 * NS_PER_SECOND,                                   \
		  "TIME",                                                 \
		  "time limit of the request" },                          \
		HTTP_SECURITY_OPTIONS(&(request)->security)

#define API_REQUEST_OPTIONS(request) API_REQUEST_OPTIONS_OF(request, "now-15m", "now")

void api_request_deinit(struct api_request *request);

/** The words that follow the flags: at most one selector. Returns 0 or -EINVAL. */
int api_request_set_selector(struct api_request *request, int count, char **words,
			     struct error *err);

/** Are the times times, in this order? Returns 0 or -EINVAL. */
int api_request_check(const struct api_request *request, struct error *err);

/** The collector's address of @path. */
void api_request_append_page(const struct api_request *request, const char *path,
			     struct buffer *url);

/** The collector's @path with the selection as parameters. */
void api_request_begin_url(const struct api_request *request, const char *path, struct buffer *url);

/**
 * Get @url, showing progress on a terminal. Returns 0 with a whole answer of status 200; a negative
 * errno and @err, in the collector's words if it refused.
 */
int api_request_send(const struct api_request *request, struct buffer *url,
		     struct http_response *response, struct error *err);

/** As above, but DELETE. */
int api_request_send_deletion(const struct api_request *request, struct buffer *url,
			      struct http_response *response, struct error *err);

/** As above, but POST, without a body. */
int api_request_send_post(const struct api_request *request, struct buffer *url,
			  struct http_response *response, struct error *err);

/** The string at @key, or "". */
const char *json_text_of(const json_t *object, const char *key);
/** The same, cut to @size and fit for a terminal. Returns @ret_word. */
const char *json_word_of(const json_t *object, const char *key, char *ret_word, size_t size);
