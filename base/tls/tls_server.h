// SPDX-License-Identifier: Apache-2.0
// A server's TLS: its certificate and key, the CAs of its clients and what these revoked. The files are
// read again when they change; running connections go on. One per process: libmicrohttpd's callback
// for certificates has no context.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	TLS_FILE_BYTES_MAX = 4 << 20, // a CRL with 50,000 certificates has some 2 MB
	TLS_CHAIN_MAX = 8,            // certificates of a chain; public ones have 3 or 4
	TLS_NAME_BYTES = 256,         // a DNS name has at most 253
};

struct tls_server;

struct tls_server_options {
	const char *certificate_file; // PEM: the server's, then its intermediates
	const char *key_file;         // PEM
	const char *client_ca_file;   // PEM; NULL: clients are not asked for certificates
	const char *crl_file;         // PEM; NULL: none; needs client_ca_file
};

/** Read the files. Returns 0 or a negative errno with @err. */
int tls_server_open(const struct tls_server_options *options, struct tls_server **ret_server,
		    struct error *err);
void tls_server_close(struct tls_server *server);

/**
 * Read files that have changed; call it about once a second, on one thread. If that fails, the old ones
 * stay. Returns whether they were replaced, or a negative errno with @err: for a damaged file once per
 * change (-EINVAL), otherwise until the files can be read.
 */
int tls_server_refresh(struct tls_server *server, struct error *err);

/**
 * Who the peer of @session is (a gnutls_session_t): the first DNS name, else the first URI, else the
 * common name of its certificate. Judges the certificate by the CAs and CRLs of now. Thread-safe.
 * Returns 0; -ENOENT (no certificate); -EKEYREJECTED with @err; -ENOMEM.
 */
int tls_server_identify(struct tls_server *server, void *session, char ret_name[TLS_NAME_BYTES],
			struct error *err);

/** Unix time in seconds at which the server's own certificate expires. */
uint64_t tls_server_expires_s(struct tls_server *server);

/** For MHD_OPTION_HTTPS_CERT_CALLBACK2: a gnutls_certificate_retrieve_function3 of the open server. */
void *tls_server_certificate_callback(void);

/** What both servers offer: TLS 1.2 and 1.3. A GnuTLS priority string. */
#define TLS_PRIORITIES \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CAMELLIA-128-CBC:%SERVER_PRECEDENCE"
