// SPDX-License-Identifier: Apache-2.0
// What rpc_client.c and rpc_server.c share: the gRPC library's life, and messages between its byte
// buffers and ours. Only the files proto/rpc_*.c include this.
#pragma once

#include <stddef.h>

#include <grpc/grpc.h>

#include "base/buffer.h"

enum {
	// A link is probed when it was quiet for this long, and given up after the second figure.
	RPC_KEEPALIVE_MS = 30 * 1000,
	RPC_KEEPALIVE_TIMEOUT_MS = 10 * 1000,
};

/** Start the library, or count one more user. Its log lines go to ours at the level "debug". */
void rpc_library_open(void);
void rpc_library_close(void);

/** A byte buffer with a copy of @size bytes: the transport may hold it longer than a call lasts. */
grpc_byte_buffer *rpc_message_new(const void *bytes, size_t size);

/**
 * Append @message's bytes to @buffer, inflated if it is compressed.
 *
 * gRPC's own decompression has no limit on what comes out (a thousandfold of what came in), so it
 * is switched off in both directions and done here. Returns 0; -EMSGSIZE above @size_max bytes;
 * -EBADMSG if the compressed bytes are broken; -ENOMEM.
 */
int rpc_message_read(grpc_byte_buffer *message, size_t size_max, struct buffer *buffer);
