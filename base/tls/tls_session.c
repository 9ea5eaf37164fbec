// SPDX-License-Identifier: Apache-2.0
#include "base/tls/tls_session.h"

#include <errno.h>
#include <stdlib.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

struct tls_session {
	gnutls_certificate_credentials_t credentials;
	gnutls_session_t handle;
};

static int errno_of(ssize_t code)
{
	return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED ? -EAGAIN
	       : code == GNUTLS_E_MEMORY_ERROR                        ? -ENOMEM
								      : -ECONNRESET;
}

static int open_handle(struct tls_session *session, int fd)
{
	static const gnutls_datum_t h2 = { (unsigned char *)"h2", 2 };
	int code = gnutls_certificate_allocate_credentials(&session->credentials);

	if (code)
		return code;
	gnutls_certificate_set_retrieve_function3(
		session->credentials,
		(gnutls_certificate_retrieve_function3 *)tls_server_certificate_callback());
	code = gnutls_init(&session->handle,
			   GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
	if (!code)
		code = gnutls_priority_set_direct(session->handle, TLS_PRIORITIES, NULL);
	if (!code)
		code = gnutls_credentials_set(session->handle, GNUTLS_CRD_CERTIFICATE,
					      session->credentials);
	if (!code)
		code = gnutls_alpn_set_protocols(session->handle, &h2, 1, 0);
	if (!code)
		gnutls_transport_set_int(session->handle, fd);
	return code;
}

int tls_session_new(struct tls_server *server, int fd, struct tls_session **ret_session)
{
	struct tls_session *session = calloc(1, sizeof(*session));

	(void)server; // the process's: tls_server_certificate_callback()
	if (!session || open_handle(session, fd)) {
		tls_session_free(session);
		return -ENOMEM;
	}
	*ret_session = session;
	return 0;
}

void tls_session_free(struct tls_session *session)
{
	if (!session)
		return;
	if (session->handle) {
		gnutls_bye(session->handle, GNUTLS_SHUT_WR);
		gnutls_deinit(session->handle);
	}
	if (session->credentials)
		gnutls_certificate_free_credentials(session->credentials);
	free(session);
}

int tls_session_handshake(struct tls_session *session, struct error *err)
{
	int code;

	do
		code = gnutls_handshake(session->handle);
	while (code < 0 && code != GNUTLS_E_AGAIN && code != GNUTLS_E_INTERRUPTED &&
	       !gnutls_error_is_fatal(code));
	if (!code)
		return 0;
	return error_set(err, errno_of(code), "TLS handshake: %s", gnutls_strerror(code));
}

ssize_t tls_session_read(struct tls_session *session, void *bytes, size_t size)
{
	ssize_t got = gnutls_record_recv(session->handle, bytes, size);

	// A peer that closes without a goodbye: HTTP/2 has frames of known length, nothing is cut.
	if (got == GNUTLS_E_PREMATURE_TERMINATION)
		return 0;
	return got >= 0 ? got : errno_of(got);
}

ssize_t tls_session_write(struct tls_session *session, const void *bytes, size_t size)
{
	ssize_t put = gnutls_record_send(session->handle, bytes, size);

	return put >= 0 ? put : errno_of(put);
}

bool tls_session_wants_write(const struct tls_session *session)
{
	return gnutls_record_get_direction(session->handle) == 1;
}

size_t tls_session_pending(const struct tls_session *session)
{
	return gnutls_record_check_pending(session->handle);
}

void *tls_session_handle(const struct tls_session *session)
{
	return session->handle;
}
