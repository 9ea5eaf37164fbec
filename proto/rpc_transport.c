// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_transport.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DRAIN_BYTES = 16 << 10, DRAINS_MAX = 16 };

ssize_t rpc_transport_read(struct rpc_transport *transport, void *bytes, size_t size)
{
	ssize_t count = recv(transport->fd, bytes, size, 0);

	return count < 0 ? (errno == EINTR ? -EAGAIN : -errno) : count;
}

ssize_t rpc_transport_write(struct rpc_transport *transport, const void *bytes, size_t size)
{
	ssize_t count = send(transport->fd, bytes, size, MSG_NOSIGNAL);

	return count < 0 ? (errno == EINTR ? -EAGAIN : -errno) : count;
}

void rpc_transport_close(struct rpc_transport *transport)
{
	uint8_t bytes[DRAIN_BYTES];

	// A close with bytes that were not read resets the connection: the client would not read our last ones.
	shutdown(transport->fd, SHUT_WR);
	for (int i = 0; i < DRAINS_MAX; i++)
		if (recv(transport->fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0)
			break;
	close(transport->fd);
	transport->fd = -1;
}
