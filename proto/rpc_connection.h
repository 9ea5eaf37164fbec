// SPDX-License-Identifier: Apache-2.0
// One client's connection: HTTP/2 by nghttp2, and its calls. All functions are the loop's thread's.
// Only proto/rpc_*.c include this.
#pragma once

#include <nghttp2/nghttp2.h>

#include "proto/rpc_handler.h"
#include "proto/rpc_call.h"
#include "proto/rpc_queue.h"
#include "proto/rpc_transport.h"

enum {
	RPC_PENDING_BYTES_MAX = 64 << 10
}; // written by nghttp2 in one step, and not yet by the socket

/** What all connections of a server share. */
struct rpc_service {
	struct rpc_server_limits limits;
	size_t message_bytes_max;
	const struct rpc_method *methods;
	uint32_t method_count;
	struct byte_budget *budget;
	struct rpc_queue queue;
	void (*report)(void *context, enum rpc_event event, const char *peer);
	void *report_context;
	uint32_t call_count; // queued or with a thread, of connections that are there or have gone
};

struct rpc_connection {
	struct rpc_service *service;
	struct rpc_peer *peer;
	struct rpc_transport transport;
	nghttp2_session *session;
	struct rpc_connection *next, **at; // in the server's list
	struct rpc_call *first;            // of its calls
	uint32_t call_count;
	bool is_established; // its first frame has arrived
	bool is_failed;      // to be closed now
	bool is_leaving;     // no further calls: it is closed after the last answer

	uint8_t *pending; // bytes that the socket did not take
	size_t pending_size, pending_sent;
	bool awaits_write; // what the loop polls for

	uint64_t since_ns;   // monotonic
	uint64_t idle_ns;    // since when there is no call
	uint64_t read_ns;    // the last byte
	uint64_t ping_ns;    // 0: none is out
	uint64_t pending_ns; // since when bytes are pending
	uint64_t leaving_ns;
	uint32_t age_ms;      // its limit, which differs by a little
	uint32_t frame_count; // that carry no message, in this second
	uint64_t second_ns;
};

/** Takes @fd in any case. @tls: NULL: none. NULL: out of memory. */
struct rpc_connection *rpc_connection_new(struct rpc_service *service, struct rpc_peer *peer,
					  struct tls_server *tls, int fd);
/** Calls that a thread has go on, and their answers are dropped. */
void rpc_connection_free(struct rpc_connection *connection);

/** Read and handle what has arrived, a bounded part of it. */
void rpc_connection_read(struct rpc_connection *connection);
/** Write what the socket takes. */
void rpc_connection_write(struct rpc_connection *connection);
/** A call of it has an outcome: answer, once the client has sent its message. */
void rpc_connection_answer(struct rpc_connection *connection, struct rpc_call *call,
			   enum rpc_status status);
/** Send a call's answer, though the client has not sent all yet. */
void rpc_connection_submit(struct rpc_connection *connection, struct rpc_call *call);
/** The client need not send the rest of a call that was refused. */
void rpc_connection_reset(struct rpc_connection *connection, struct rpc_call *call);
/** Ask the client to connect elsewhere; end after the last call. */
void rpc_connection_leave(struct rpc_connection *connection);
/** What to poll for: room for bytes, rather than bytes. */
bool rpc_connection_awaits_write(const struct rpc_connection *connection);
/** Is it to be freed? */
bool rpc_connection_has_ended(const struct rpc_connection *connection);
/** Free a call whose connection has gone, or that was answered. */
void rpc_connection_release_call(struct rpc_service *service, struct rpc_call *call);
/** Count what bounded it. */
void rpc_connection_report(const struct rpc_connection *connection, enum rpc_event event);
/** Count, and let it end. */
void rpc_connection_fail(struct rpc_connection *connection, enum rpc_event event);
