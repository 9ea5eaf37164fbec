// SPDX-License-Identifier: Apache-2.0
// A TLS connection that a server accepted, over a non-blocking socket.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/tls/tls_server.h"

struct tls_session;

/** A session of the connected socket @fd, which stays the caller's. Offers HTTP/2. Returns 0 or -ENOMEM. */
int tls_session_new(struct tls_server *server, int fd, struct tls_session **ret_session);
void tls_session_free(struct tls_session *session);

/** All return -EAGAIN until the socket is ready, for writing if tls_session_wants_write(). */
int tls_session_handshake(struct tls_session *session, struct error *err);
ssize_t tls_session_read(struct tls_session *session, void *bytes, size_t size); // 0: closed
/** After -EAGAIN, call it with the same bytes again. */
ssize_t tls_session_write(struct tls_session *session, const void *bytes, size_t size);
bool tls_session_wants_write(const struct tls_session *session);
/** Bytes that tls_session_read() has without the socket. */
size_t tls_session_pending(const struct tls_session *session);

/** For tls_server_identify(). */
void *tls_session_handle(const struct tls_session *session);
