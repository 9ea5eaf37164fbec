// SPDX-License-Identifier: Apache-2.0
// Unary gRPC: a client on gRPC's C core, and a server on nghttp2, which bounds what clients can make it
// hold. Only proto/rpc_*.c call either. Messages are bytes; the callers encode and decode them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/byte_budget.h"
#include "base/error.h"
#include "proto/rpc_address.h"
#include "proto/rpc_handler.h"
#include "proto/rpc_status.h"

struct rpc_client;

/**
 * How a client proves who it is, and knows the server: files, borrowed paths. They are read again when
 * they change: the next call has the new token, or a new connection with the new certificate.
 */
struct rpc_security {
	const char *ca_file;          // PEM, or RPC_SYSTEM_CAS; NULL: no TLS
	const char *certificate_file; // the client's own; NULL: none
	const char *key_file;
	const char *token_file;   // sent as "authorization: Bearer TOKEN"; NULL: none
	const char *headers_file; // sent, too (base/header_file.h); NULL: none
};

#define RPC_SYSTEM_CAS "system"

/**
 * Make a client of @address ("host:port", "unix:PATH"); does not block. The first call connects, and each
 * call after a failure reconnects. Responses above @message_bytes_max are refused. @security: NULL: none.
 * Returns 0; -errno if a file of @security cannot be read; -EINVAL.
 */
int rpc_client_open(const char *address, size_t message_bytes_max,
		    const struct rpc_security *security, struct rpc_client **ret_client,
		    struct error *err);
void rpc_client_close(struct rpc_client *client);

/**
 * Call @method; blocks for at most @deadline_ms. One call at a time per client. RPC_OK fills @response;
 * another status fills @err with the server's text, and with the limit's code where RPC_LIMIT_HEADER names one. A request may arrive twice: when the connection of
 * earlier calls breaks, it is sent again.
 */
enum rpc_status rpc_client_call(struct rpc_client *client, const char *method,
				const struct buffer *request, uint32_t deadline_ms,
				struct buffer *response, struct error *err);
/** The pause that the server asked for with the last failure (google.rpc.RetryInfo), in ms; 0: it did not. */
uint32_t rpc_client_pause_ms(const struct rpc_client *client);
/** Cancel the call in flight from another thread; it returns RPC_CANCELLED. */
void rpc_client_cancel(struct rpc_client *client);

struct rpc_server;
struct tls_server;

extern const struct rpc_server_limits rpc_server_limits_default;

struct rpc_server_options {
	const char *address; // "host:port" (port 0: any), "unix:PATH"
	size_t message_bytes_max;
	uint32_t threads; // 1..64
	const struct rpc_method *methods;
	uint32_t method_count;
	const struct rpc_server_limits *limits; // NULL: rpc_server_limits_default
	struct tls_server *tls;                 // borrowed; NULL: no TLS
	/** Memory of all messages: received, inflated, handled, answered. Borrowed; NULL: no limit. */
	struct byte_budget *budget;
	/** Count @event; @peer: whose call or connection it was, or "". May be NULL. Any thread. */
	void (*report)(void *context, enum rpc_event event, const char *peer);
	void *report_context;
};

/** Open the server; it serves on return. *ret_port: the bound port (0 for a unix socket). */
int rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
		    int *ret_port, struct error *err);
/** Finish calls in flight, cancel them after @grace_ms, stop, free. */
void rpc_server_close(struct rpc_server *server, uint32_t grace_ms);

/** Connections that are open. Any thread. */
uint32_t rpc_server_connections(const struct rpc_server *server);

/**
 * Call @method of @server as a client does: connect to its address, send an empty message, await the answer.
 * Returns 0; -ETIME after @deadline_ms, or another -errno, with the stage in @err.
 */
int rpc_server_probe(struct rpc_server *server, const char *method, uint32_t deadline_ms,
		     struct error *err);
