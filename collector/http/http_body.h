// SPDX-License-Identifier: Apache-2.0
// The body of a request while it is received: a PUT's bytes go to a file, a push's to memory.
// Independent of libmicrohttpd.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "collector/http/http_exchange.h"

struct http_body {
	int fd;               // of a PUT's file, not owned; -1: the bytes go to memory
	uint64_t bytes_max;   // by Content-Length; of a push without one its limit
	uint64_t written;     // to the file
	struct buffer memory; // of a push, as far as it was received
};

/** A PUT's @length, a Content-Length or NULL, bounds the bytes written; its file is set next. False: refused in @response. */
bool http_body_begin_put(struct http_body *body, const char *length,
			 struct http_response *response);

/**
 * Receive a push of at most @bytes_max bytes into memory that is taken from @budget (NULL: no limit). @length and
 * @encoding are the headers Content-Length and Content-Encoding, or NULL. False: refused in @response.
 */
bool http_body_begin_push(struct http_body *body, const char *length, const char *encoding,
			  size_t bytes_max, struct byte_budget *budget,
			  struct http_response *response);

/**
 * The next bytes. False: the file takes no more, the connection must end. A push for which there is no room is
 * received to its end all the same, for only then can its client read why.
 */
bool http_body_receive(struct http_body *body, const void *bytes, size_t size);

/** All bytes have arrived: had they room? False: refused in @response. */
bool http_body_end(const struct http_body *body, struct http_response *response);

void http_body_deinit(struct http_body *body);
