// SPDX-License-Identifier: Apache-2.0
// What a server calls: the handlers of its methods, and what counts its limits; and the limits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "proto/rpc_status.h"

/** A call's message and who sent it; lives until the handler returns. */
struct rpc_request {
	const void *bytes;
	size_t size;
	const char *peer;   // the address without the port
	const void *caller; // what the method's admit() said; NULL without one
	// Of RPC_RESOURCE_EXHAUSTED: when the client may try again; untouched: it decides. NULL: nobody asks.
	uint32_t *ret_pause_ms;
};

/** Who calls, when the headers have arrived and the message has not. */
struct rpc_visitor {
	const char *peer;          // the address without the port
	const char *authorization; // the header's value, or NULL
	void *tls_session;         // for tls_server_identify(); NULL without TLS
	uint32_t *ret_pause_ms;    // as that of a request; then whoever refuses counts it
};

/**
 * May the message be received? RPC_OK with *ret_caller (NULL, or from malloc(), freed with the call) for the
 * handler; another status with @err, whose text is sent. Called on one thread, which must not wait.
 */
typedef enum rpc_status (*rpc_admit_fn)(void *context, const struct rpc_visitor *visitor,
					void **ret_caller, struct error *err);

/**
 * Handle one request: fill @response and return RPC_OK, or fill @err, whose text is sent, and with
 * RPC_RESOURCE_EXHAUSTED the limit (RPC_LIMIT_HEADER) that its code stands for, and return
 * another status. Called on several threads at once.
 */
typedef enum rpc_status (*rpc_handler_fn)(void *context, const struct rpc_request *request,
					  struct buffer *response, struct error *err);

struct rpc_method {
	const char *name; // "/cairn.v1.Collector/Export"
	rpc_handler_fn handle;
	void *context;
	size_t work_per_byte; // memory that the handler allocates for each byte of a message
	rpc_admit_fn admit;   // NULL: everybody may call
	void *admit_context;
};

/** What the server did to bound itself: each is counted. */
enum rpc_event {
	RPC_EVENT_CONNECTIONS_FULL,
	RPC_EVENT_PEER_CONNECTIONS_FULL,
	RPC_EVENT_NO_DESCRIPTOR,
	RPC_EVENT_LISTENER_RESTARTED,
	RPC_EVENT_HANDSHAKE_LATE,
	RPC_EVENT_HANDSHAKE_FAILED,
	RPC_EVENT_REFUSED,
	RPC_EVENT_MESSAGE_LATE,
	RPC_EVENT_HANDLER_LATE,
	RPC_EVENT_ANSWER_LATE,
	RPC_EVENT_PEER_DEAD,
	RPC_EVENT_PEER_HOSTILE,
	RPC_EVENT_PEER_CALLS_FULL,
	RPC_EVENT_MESSAGE_TOO_LARGE,
	RPC_EVENT_MESSAGE_DAMAGED, // or an impossible compression
	RPC_EVENT_BUDGET_SPENT,
};

struct rpc_server_limits {
	uint32_t connections_max;
	uint32_t connections_per_peer_max;
	uint32_t streams_per_connection_max;
	uint32_t queued_per_peer_max; // messages that wait for a thread
	uint32_t handshake_ms;        // from connecting to the first frame
	uint32_t message_ms;          // from a call's headers to the end of its message
	uint32_t queue_ms;            // from there to a thread
	uint32_t answer_ms;           // until the client has read the answer
	uint32_t idle_ms;             // a connection without calls
	uint32_t quiet_ms;            // without a byte from the client: then it is pinged
	uint32_t ping_ms;             // and this long it may take to answer
	uint32_t age_ms; // then the client is asked to connect again, to another collector
};
