// SPDX-License-Identifier: Apache-2.0
// What carries a connection's bytes: the socket itself, or TLS over it. Only proto/rpc_*.c include this.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_server;
struct tls_session;

struct rpc_transport {
	int fd;                  // does not block; owned
	struct tls_session *tls; // NULL: none
	bool is_established;     // the handshake is done
};

/** Takes @fd in any case. @tls: NULL: none. Returns 0 or -ENOMEM. */
int rpc_transport_open(struct rpc_transport *transport, struct tls_server *tls, int fd);
/** Bytes read; 0 at the end; -EAGAIN; -EPROTO (the handshake failed); -errno. */
ssize_t rpc_transport_read(struct rpc_transport *transport, void *bytes, size_t size);
/** Bytes written; -EAGAIN: call it with the same bytes again; -errno. */
ssize_t rpc_transport_write(struct rpc_transport *transport, const void *bytes, size_t size);
/** What the socket is polled for during the handshake. */
bool rpc_transport_awaits_write(const struct rpc_transport *transport);
/** Bytes that can be read without the socket. */
size_t rpc_transport_pending(const struct rpc_transport *transport);
/** For tls_server_identify(); NULL without TLS. */
void *rpc_transport_tls_session(const struct rpc_transport *transport);
void rpc_transport_close(struct rpc_transport *transport);
