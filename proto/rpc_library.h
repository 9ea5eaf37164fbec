// SPDX-License-Identifier: Apache-2.0
// What rpc_client.c and rpc_server.c share: initializing the gRPC library, and copying messages
// between its byte buffers and ours. Only proto/rpc_*.c include this.
#pragma once

#include <stddef.h>

#include <grpc/grpc.h>

#include "base/buffer.h"

enum {
	// A quiet connection is pinged after the first, and closed without an answer after the
	// second.
	RPC_KEEPALIVE_MS = 30 * 1000,
	RPC_KEEPALIVE_TIMEOUT_MS = 10 * 1000,
};

/** Initialize the library, or count one more user. Its log goes to ours at level "debug". */
void rpc_library_open(void);
void rpc_library_close(void);

/** A byte buffer with a copy of the bytes: the transport may keep it longer than the call. */
grpc_byte_buffer *rpc_message_new(const void *bytes, size_t size);

/**
 * Append @message's bytes to @buffer, inflated if it is compressed.
 *
 * gRPC's decompression does not limit its output, which can be a thousand times the input. So it is
 * disabled, and done here. Returns 0; -EMSGSIZE above @size_max bytes; -EBADMSG (the compressed data are
 * damaged); -ENOMEM.
 */
int rpc_message_read(grpc_byte_buffer *message, size_t size_max, struct buffer *buffer);
