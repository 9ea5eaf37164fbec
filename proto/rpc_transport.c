// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_transport.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tls/tls_session.h"

enum { DRAIN_BYTES = 16 << 10, DRAINS_MAX = 16 };

int rpc_transport_open(struct rpc_transport *transport, struct tls_server *tls, int fd)
{
	*transport = (struct rpc_transport){ .fd = fd, .is_established = !tls };
	return tls ? tls_session_new(tls, fd, &transport->tls) : 0;
}

static int establish(struct rpc_transport *transport)
{
	struct error err = { 0 };

	if (transport->is_established)
		return 0;
	int rc = tls_session_handshake(transport->tls, &err);
	transport->is_established = !rc;
	if (!rc || rc == -EAGAIN)
		return rc;
	log_debug("rpc: %s", err.text);
	return -EPROTO;
}

ssize_t rpc_transport_read(struct rpc_transport *transport, void *bytes, size_t size)
{
	int rc = establish(transport);

	if (rc)
		return rc;
	if (transport->tls)
		return tls_session_read(transport->tls, bytes, size);
	ssize_t count = recv(transport->fd, bytes, size, 0);

	return count < 0 ? (errno == EINTR ? -EAGAIN : -errno) : count;
}

ssize_t rpc_transport_write(struct rpc_transport *transport, const void *bytes, size_t size)
{
	int rc = establish(transport);

	if (rc)
		return rc;
	if (transport->tls)
		return tls_session_write(transport->tls, bytes, size);
	ssize_t count = send(transport->fd, bytes, size, MSG_NOSIGNAL);

	return count < 0 ? (errno == EINTR ? -EAGAIN : -errno) : count;
}

bool rpc_transport_awaits_write(const struct rpc_transport *transport)
{
	return !transport->is_established && tls_session_wants_write(transport->tls);
}

size_t rpc_transport_pending(const struct rpc_transport *transport)
{
	return transport->tls && transport->is_established ? tls_session_pending(transport->tls)
							   : 0;
}

void *rpc_transport_tls_session(const struct rpc_transport *transport)
{
	return transport->tls ? tls_session_handle(transport->tls) : NULL;
}

void rpc_transport_close(struct rpc_transport *transport)
{
	uint8_t bytes[DRAIN_BYTES];

	tls_session_free(transport->tls);
	transport->tls = NULL;
	// A close with bytes that were not read resets the connection: the client would not read our last ones.
	shutdown(transport->fd, SHUT_WR);
	for (int i = 0; i < DRAINS_MAX; i++)
		if (recv(transport->fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0)
			break;
	close(transport->fd);
	transport->fd = -1;
}
