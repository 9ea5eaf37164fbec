// SPDX-License-Identifier: Apache-2.0
// An HTTP request and its response, as handlers see them: independent of libmicrohttpd.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "collector/access/access.h"

enum {
	HTTP_PARAMETERS_MAX = 32,
	HTTP_BODY_BYTES_MAX = 64 << 20, // of a response, before compression
	HTTP_COMPRESS_BYTES_MIN = 1024, // below this, gzip saves no packet
	HTTP_CLIENT_GONE = 499,         // a status, nginx's
};

struct http_parameter {
	const char *name;
	const char *value; // "" when absent
};

struct deadline;

// HEAD is a GET whose body is not sent. Only a PUT and pushes, which are POST, have a body.
enum http_method { HTTP_GET, HTTP_PUT, HTTP_POST, HTTP_DELETE };

/** Strings are URL-decoded, end in NUL and live as long as the request. */
struct http_request {
	enum http_method method;
	const char *path;
	struct http_parameter parameters[HTTP_PARAMETERS_MAX];
	uint32_t parameter_count;
	bool malformed; // too many parameters, or a NUL byte in one
	bool accepts_gzip;
	const char *if_none_match;         // or NULL
	struct access_request credentials; // what the client shows
	struct identity identity;          // who asks; set before a handler runs
	uint64_t body_bytes;               // of a PUT: Content-Length
	void *upload;                      // the upload handler's
	const void *body;                  // of a push: all of it
	size_t body_size;
	const char *content_type;  // of a body, or NULL
	struct deadline *deadline; // when it times out, or its client has gone; NULL: never
};

struct http_response {
	int status;             // 0: 200
	const char *media_type; // a string constant
	struct buffer body;
	const void *fixed_body; // sent instead of body unless NULL; never freed
	size_t fixed_size;
	bool is_gzip;            // the body is compressed
	const char *etag;        // a string constant in quotes, or NULL
	const char *disposition; // a string constant, or NULL
	bool varies;             // the body depends on Accept-Encoding
	uint32_t retry_after_s;  // 0: none
	char incomplete[96];     // what is damaged, and missing in the answer; "": nothing
	uint64_t resolution_ns;  // of profiles in the answer that are downsampled; 0: none is
	bool closes;             // the connection is closed after the response
	const char *allow;       // of a 405: a string constant, or NULL for GET and HEAD
	const char *endpoint;    // for the metrics: a string constant, or NULL
	char *set_cookie;        // owned, or NULL
	char audited[64];        // members of the audit log's line: what was done; "": nothing
	bool is_foreign;         // refused: a page of another site sent the request
};

void http_response_deinit(struct http_response *response);

/** Make it an error response: {"error":{"code":..,"field":..,"message":..}}. @field may be "". */
void http_respond_error(struct http_response *response, int status, const char *code,
			const char *field, const char *message);

/** Make it the error response of a body for which no memory is left now. */
void http_respond_busy(struct http_response *response);

/** Make it the error response of a query's memory, as memory_account_check() or tenant_refuse_memory() says. */
void http_respond_no_memory(struct http_response *response, const struct error *err);

/** Make it the error response of @err's code: -EINVAL is a 400 about @field, and so on. */
void http_respond_failure(struct http_response *response, const struct error *err,
			  const char *field);

/** The parameter's value, or "" if it is absent. */
const char *http_parameter(const struct http_request *request, const char *name);

/** Compress the body if the client accepts gzip and it is worth it. On failure it stays plain. */
void http_compress(const struct http_request *request, struct http_response *response);

/** Does an If-None-Match header's value match @etag? */
bool http_etag_matches(const char *if_none_match, const char *etag);
/** Does an Accept-Encoding header's value allow gzip? NULL: no. */
bool http_accepts_gzip(const char *accept_encoding);
