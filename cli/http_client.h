// SPDX-License-Identifier: Apache-2.0
// GET, PUT, POST and DELETE over HTTP. The command line's only user of libcurl.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/config/config_setting.h"
#include "base/error.h"

enum { HTTP_BODY_BYTES_MAX = 512 << 20 }; // a pprof file of a day of a fleet is far below this

/** Called with the bytes received (of a PUT: sent) so far, about once a second and at each arrival. */
typedef void (*http_progress_fn)(void *context, uint64_t bytes);

/** How to prove who asks, and to know the collector: files. */
struct http_security {
	char *tls_ca;   // owned; NULL or "system": the machine's CAs
	char *tls_cert; // NULL: no client certificate
	char *tls_key;
	char *token_file; // NULL: no token
	bool insecure;    // the token may travel without TLS
};

/* The flags that fill it, for a command's options. */
#define HTTP_SECURITY_OPTIONS(security)                                                        \
	{ "tls-ca",                                                                            \
	  0,                                                                                   \
	  CONFIG_STRING,                                                                       \
	  &(security)->tls_ca,                                                                 \
	  NULL,                                                                                \
	  0,                                                                                   \
	  0,                                                                                   \
	  "FILE",                                                                              \
	  "trust a collector with a certificate of these CAs (PEM); default: the machine's" }, \
		{ "tls-cert",                                                                  \
		  0,                                                                           \
		  CONFIG_STRING,                                                               \
		  &(security)->tls_cert,                                                       \
		  NULL,                                                                        \
		  0,                                                                           \
		  0,                                                                           \
		  "FILE",                                                                      \
		  "show the collector this client certificate (PEM); needs --tls-key" },       \
		{ "tls-key",                                                                   \
		  0,                                                                           \
		  CONFIG_STRING,                                                               \
		  &(security)->tls_key,                                                        \
		  NULL,                                                                        \
		  0,                                                                           \
		  0,                                                                           \
		  "FILE",                                                                      \
		  "private key of --tls-cert (PEM)" },                                         \
		{ "token-file",                                                                \
		  0,                                                                           \
		  CONFIG_STRING,                                                               \
		  &(security)->token_file,                                                     \
		  NULL,                                                                        \
		  0,                                                                           \
		  0,                                                                           \
		  "FILE",                                                                      \
		  "send the token in this file; CAIRN_TOKEN_FILE names it, too" },             \
	{                                                                                      \
		"insecure", 0, CONFIG_BOOL, &(security)->insecure, NULL, 0, 0, NULL,           \
			"send the token without TLS, where the network is trusted"             \
	}

void http_security_deinit(struct http_security *security);

struct http_request {
	const char *url;
	const struct http_security *security; // NULL: none
	uint32_t timeout_ms;                  // for the whole exchange
	http_progress_fn progress;            // or NULL
	void *context;
};

/** A zeroed struct is a valid empty response. */
struct http_response {
	long status; // 200, 404 ...
	struct buffer body;
};

void http_response_deinit(struct http_response *response);

/**
 * Fetch the URL (http and https only; redirects are not followed). Any status counts as an answer.
 * Returns 0; -EINVAL with @err if the URL or @security is wrong, and nothing was asked; -EPROTO if
 * somebody answered, and @err says what is wrong;
 * -ECONNREFUSED or another negative errno with @err if the answer is incomplete.
 */
int http_get(const struct http_request *request, struct http_response *response, struct error *err);

/** The same with PUT, whose body is the first @body_bytes of the file @body_fd. */
int http_put(const struct http_request *request, int body_fd, uint64_t body_bytes,
	     struct http_response *response, struct error *err);

/** The same with DELETE. */
int http_delete(const struct http_request *request, struct http_response *response,
		struct error *err);

/** The same with POST, without a body. */
int http_post(const struct http_request *request, struct http_response *response,
	      struct error *err);

/** The same with POST and a body of @type ("application/x-protobuf"). */
int http_post_body(const struct http_request *request, const char *type, const void *bytes,
		   size_t size, struct http_response *response, struct error *err);

/** Append "?name=value" or "&name=value" with @value percent-encoded; nothing if it is NULL. */
void http_append_parameter(struct buffer *url, const char *name, const char *value);
