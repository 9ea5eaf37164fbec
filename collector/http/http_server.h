// SPDX-License-Identifier: Apache-2.0
// The HTTP server: connections, limits, threads. With http_message.h the only user of libmicrohttpd. Requests go to
// the handler in its options.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collector/http/http_exchange.h"
#include "base/http/http_guard.h"

enum {
	HTTP_CONNECTIONS_MAX = 512,
	HTTP_CONNECTIONS_PER_PEER_MAX = 256, // a proxy in front is one peer (http_peers.h)
	HTTP_HEADER_BYTES_MAX = 32
				<< 10, // request line and headers; more is refused with 414 or 431
	HTTP_IDLE_S_MAX = 30,
	HTTP_REQUEST_MS_MAX =
		30 * 1000, // from connecting, or the last answer, to the end of the headers
	HTTP_TRANSFER_MS_MAX =
		20 * 1000, // of a body either way, and a second for each of so many bytes:
	HTTP_TRANSFER_BYTES_PER_SECOND = 256 << 10,
	HTTP_QUEUED_PER_THREAD_MAX =
		32,                  // slow requests that wait; further ones are refused with 503
	HTTP_QUEUED_OF_PEER_MAX = 4, // of these, of one who asks, per thread
	HTTP_ANSWER_MS_MAX = 30 * 1000, // then a slow request's deadline has passed
};

/** What the server did to bound itself: each is counted. */
enum http_limit {
	HTTP_LIMIT_LATE,    // a connection was closed: its client was too slow
	HTTP_LIMIT_PEER,    // a connection was refused: its peer has too many
	HTTP_LIMIT_ANSWERS, // a request was refused: the memory for answers was taken
	HTTP_LIMITS,
};

struct http_server_options {
	const char *setting;                // that gave the address, for messages; NULL: "http"
	const char *address;                // "host:port", "[::1]:port", "unix:PATH"; port 0: any
	uint32_t threads;                   // 1..64: how many slow requests run at once
	uint32_t connections_max;           // 0: HTTP_CONNECTIONS_MAX
	struct byte_budget *answers;        // memory of queries and all bodies; NULL: no limit
	uint32_t request_ms;                // 0: HTTP_REQUEST_MS_MAX
	uint32_t transfer_ms;               // 0: HTTP_TRANSFER_MS_MAX
	uint32_t transfer_bytes_per_second; // 0: HTTP_TRANSFER_BYTES_PER_SECOND
	const struct http_guard *guard;     // which callers are answered; NULL: all
	void *context;
	struct tls_server *tls;   // NULL: HTTP without TLS
	const char *proxy_header; // names the user that a proxy has authenticated; NULL: none
	/**
	 * The headers have arrived: set @request's identity. False: refused, with an error in @response; a
	 * body is not received. NULL: everybody may do everything.
	 */
	bool (*admit)(void *context, struct http_request *request, struct http_response *response);
	/** Must @request run on a worker? Others are answered on libmicrohttpd's threads. */
	bool (*is_slow)(void *context, const struct http_request *request);
	/** Fill @response. Called on several threads at once. */
	void (*handle)(void *context, const struct http_request *request,
		       struct http_response *response);
	/** How many bytes a POST's body may have, which comes with the request; 0: none. NULL: none may. */
	size_t (*body_max)(void *context, const struct http_request *request);
	struct byte_budget *bodies; // memory of these bodies; NULL: no limit
	/**
	 * A PUT's headers have arrived. Returns a descriptor for its body, owned by @request's upload;
	 * or -1 with an error in @response. NULL: PUT is refused.
	 */
	int (*begin_upload)(void *context, struct http_request *request,
			    struct http_response *response);
	/** The exchange has ended, also by failure: delete @request's upload unless it was kept. */
	void (*end_upload)(void *context, struct http_request *request);
	/** The response was sent, or the client closed the connection; may be NULL. */
	void (*done)(void *context, const struct http_request *request,
		     const struct http_response *response, uint64_t duration_ns, uint64_t bytes);
	/** Count a limit that was hit; may be NULL. Any thread. */
	void (*limited)(void *context, enum http_limit limit);
};

struct http_server;

/** Open the server; it serves on return. *ret_port is 0 for a Unix socket. */
int http_server_open(const struct http_server_options *options, struct http_server **ret_server,
		     int *ret_port, struct error *err);
/** Stop listening, finish running requests, wait @grace_ms for their responses to be sent, free. */
void http_server_close(struct http_server *server, uint32_t grace_ms);
