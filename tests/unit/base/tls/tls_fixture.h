// SPDX-License-Identifier: Apache-2.0
// Certificates of a CA that openssl(1) makes, in a folder of the test.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "base/tls/tls_server.h"
#include "base/tls/tls_session.h"
#include "tests/test.h"

struct tls_folder {
	char folder[32];
	char path[4][64];
};

__attribute__((format(printf, 1, 2))) static inline void shell(const char *format, ...)
{
	char command[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	if (system(command))
		fail_msg("%s", command);
}

/** A CA "ca" in the folder. */
static inline void tls_folder_open(struct tls_folder *f)
{
	strcpy(f->folder, "/tmp/cairn-tls-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	shell("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "
	      "9 -subj /CN=ca -keyout ca.key -out ca.crt -addext "
	      "keyUsage=critical,keyCertSign,cRLSign "
	      "-addext basicConstraints=critical,CA:TRUE 2>/dev/null",
	      f->folder);
}

static inline void tls_folder_close(struct tls_folder *f)
{
	shell("rm -r %s", f->folder);
}

/** @name.crt and @name.key, signed by the CA; @extensions as of openssl's configuration. */
static inline void tls_folder_issue(struct tls_folder *f, const char *name, const char *extensions)
{
	shell("cd %s && printf '%s' > ext && openssl req -newkey ec -pkeyopt "
	      "ec_paramgen_curve:P-256 -nodes -subj /CN=%s -keyout %s.key -out csr 2>/dev/null && "
	      "openssl x509 -req -in csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 5 "
	      "-extfile ext -out %s.crt 2>/dev/null",
	      f->folder, extensions, name, name, name);
}

static inline const char *tls_folder_path(struct tls_folder *f, int slot, const char *name)
{
	snprintf(f->path[slot], sizeof(f->path[slot]), "%s/%s", f->folder, name);
	return f->path[slot];
}

/** A client's session on @fd, which does not block; with a certificate if @name is not NULL. */
struct tls_client {
	gnutls_session_t session;
	gnutls_certificate_credentials_t credentials;
};

static inline struct tls_client tls_client_open(struct tls_folder *f, int fd, const char *name)
{
	struct tls_client client = { 0 };
	char certificate[80], key[80];

	assert_int_equal(0, gnutls_certificate_allocate_credentials(&client.credentials));
	if (name) {
		snprintf(certificate, sizeof(certificate), "%s/%s.crt", f->folder, name);
		snprintf(key, sizeof(key), "%s/%s.key", f->folder, name);
		assert_int_equal(0, gnutls_certificate_set_x509_key_file(client.credentials,
									 certificate, key,
									 GNUTLS_X509_FMT_PEM));
	}
	assert_int_equal(0, gnutls_init(&client.session, GNUTLS_CLIENT | GNUTLS_NONBLOCK));
	assert_int_equal(0, gnutls_set_default_priority(client.session));
	assert_int_equal(0, gnutls_credentials_set(client.session, GNUTLS_CRD_CERTIFICATE,
						   client.credentials));
	gnutls_transport_set_int(client.session, fd);
	return client;
}

static inline void tls_client_close(struct tls_client *client)
{
	gnutls_deinit(client->session);
	gnutls_certificate_free_credentials(client->credentials);
}

static inline void tls_pair(int fds[2])
{
	assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds));
}

/** Both sides in turns until the handshake is done. Returns 0, or the server's failure. */
static inline int tls_handshake(struct tls_client *client, struct tls_session *session)
{
	int client_rc = GNUTLS_E_AGAIN, rc = -EAGAIN;

	for (int i = 0; i < 100 && (client_rc || rc); i++) {
		if (client_rc)
			client_rc = gnutls_handshake(client->session);
		if (rc)
			rc = tls_session_handshake(session, NULL);
		if (rc && rc != -EAGAIN)
			return rc;
	}
	return rc;
}
