// SPDX-License-Identifier: Apache-2.0
// Unary RPC on gRPC's C core, client and server. Only proto/rpc_*.c call grpc_*. Messages are
// bytes; the callers encode and decode them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/** gRPC's status codes that callers distinguish. */
enum rpc_status {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
};

const char *rpc_status_name(enum rpc_status status);

/**
 * Check that @address is "HOST:PORT", "[IPV6]:PORT" or "unix:PATH", with a port from @port_min. Both open
 * functions check it. Returns 0; -EINVAL with the accepted forms in @err.
 */
int rpc_address_check(const char *address, unsigned port_min, struct error *err);

struct rpc_client;

/**
 * Make a client of @address ("host:port", "unix:PATH"); does not block. The first call connects, and each
 * call after a failure reconnects. Responses above @message_bytes_max are refused.
 */
int rpc_client_open(const char *address, size_t message_bytes_max, struct rpc_client **ret_client,
		    struct error *err);
void rpc_client_close(struct rpc_client *client);

/**
 * Call @method; blocks for at most @deadline_ms. One call at a time per client. RPC_OK fills @response;
 * another status fills @err with the server's text.
 */
enum rpc_status rpc_client_call(struct rpc_client *client, const char *method,
				const struct buffer *request, uint32_t deadline_ms,
				struct buffer *response, struct error *err);
/** Cancel the call in flight from another thread; it returns RPC_CANCELLED. */
void rpc_client_cancel(struct rpc_client *client);

struct rpc_server;

/**
 * Handle one request: fill @response and return RPC_OK, or fill @err, whose text is sent, and return
 * another status. Called on several threads at once.
 */
typedef enum rpc_status (*rpc_handler_fn)(void *context, const void *request, size_t request_size,
					  struct buffer *response, struct error *err);

struct rpc_method {
	const char *name; // "/cairn.v1.Collector/Export"
	rpc_handler_fn handle;
	void *context;
};

struct rpc_server_options {
	const char *address; // "host:port" (port 0: any), "unix:PATH"
	size_t message_bytes_max;
	uint32_t threads; // 1..64
	uint32_t
		calls_max; // in flight at once, received but not yet answered; more wait in the transport
	const struct rpc_method *methods;
	uint32_t method_count;
};

/** Open the server; it serves on return. *ret_port: the bound port (0 for a unix socket). */
int rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
		    int *ret_port, struct error *err);
/** Finish calls in flight, cancel them after @grace_ms, stop, free. */
void rpc_server_close(struct rpc_server *server, uint32_t grace_ms);
