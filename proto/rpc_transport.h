// SPDX-License-Identifier: Apache-2.0
// What carries a connection's bytes. Here: the socket itself. Only proto/rpc_*.c include this.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rpc_transport {
	int fd; // does not block; owned
};

/** Bytes read; 0 at the end; -EAGAIN; -errno. */
ssize_t rpc_transport_read(struct rpc_transport *transport, void *bytes, size_t size);
/** Bytes written; -EAGAIN; -errno. */
ssize_t rpc_transport_write(struct rpc_transport *transport, const void *bytes, size_t size);
void rpc_transport_close(struct rpc_transport *transport);
