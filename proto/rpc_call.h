// SPDX-License-Identifier: Apache-2.0
// One call of the server: its message while it arrives, and its answer. All memory of it is taken from the
// server's budget. Only proto/rpc_*.c include this.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/byte_budget.h"
#include "proto/rpc_handler.h"

enum {
	RPC_PREFIX_BYTES = 5, // before each message: is it compressed, and its size
	RPC_METHOD_BYTES = 128,
	RPC_AUTHORIZATION_BYTES_MAX = 4096,
};

struct rpc_connection;
struct rpc_peer;

enum rpc_call_state {
	RPC_CALL_RECEIVING, // the headers and the message
	RPC_CALL_QUEUED,
	RPC_CALL_HANDLED, // by a thread, which owns all fields but `connection`
	RPC_CALL_ANSWERED,
};

struct rpc_call {
	_Atomic enum rpc_call_state state; // a thread makes a QUEUED one HANDLED
	struct rpc_connection *connection; // NULL: it has gone, and nobody awaits the answer
	int32_t stream;
	struct rpc_peer *peer;
	struct byte_budget *budget;
	uint64_t since_ns;    // monotonic: of the state
	uint64_t deadline_ns; // the client's; 0: none

	char method_name[RPC_METHOD_BYTES];
	const struct rpc_method *method; // NULL: not known
	char *authorization;             // NULL: none
	void *caller;                    // of the method's admit(); owned
	bool is_grpc;                    // by its content type
	bool has_other_encoding;         // than gzip
	bool has_ended;                  // the client sends no more
	bool is_submitted;               // its answer is with nghttp2

	uint8_t prefix[RPC_PREFIX_BYTES];
	uint32_t prefix_size;
	struct buffer message; // as received, later inflated
	size_t peer_bytes;     // of `message`, counted by the peer
	size_t surplus_bytes;  // arrived after the answer
	size_t inflated_size;
	size_t work_bytes; // taken from the budget to handle it

	enum rpc_status status;
	struct error err;
	uint32_t pause_ms; // of a refusal: when the client may try again; 0: it decides
	struct buffer response;
	size_t sent; // of the prefix and the response

	struct rpc_call *next_of_connection, **at_of_connection;
	struct rpc_call *next; // in the peer's queue, or of those that a thread is done with
};

/** NULL: no memory, or the budget is spent. */
struct rpc_call *rpc_call_new(struct rpc_peer *peer, struct byte_budget *budget);
void rpc_call_free(struct rpc_call *call);

/** A header of the request arrived. */
void rpc_call_add_header(struct rpc_call *call, const char *name, const char *value,
			 size_t value_size);

/** Part of the message arrived. RPC_OK, or why it is refused, with the text in @call->err. */
enum rpc_status rpc_call_add_bytes(struct rpc_call *call, const uint8_t *bytes, size_t size,
				   size_t message_bytes_max);

/** All has arrived: how large is it inflated, and what does it take to handle it? As above. */
enum rpc_status rpc_call_complete(struct rpc_call *call, size_t message_bytes_max);

/** The memory that inflating and handling it take. */
size_t rpc_call_work(const struct rpc_call *call);

/** Inflate the message in place, if it is compressed. As above. */
enum rpc_status rpc_call_inflate(struct rpc_call *call);

/** Free the message: the call will not be handled, or has been. */
void rpc_call_drop_message(struct rpc_call *call);
