// SPDX-License-Identifier: Apache-2.0
// Who asks, and what they may do. A credential (a bearer token, a client certificate, a trusted proxy's
// header) becomes an identity by the access file; nothing in a message does. Thread-safe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/tls/tls_server.h"
#include "collector/access/identity.h"

/** What a request shows. Each may be NULL. */
struct access_request {
	const char *address;       // the peer's, without its port
	const char *authorization; // "Bearer TOKEN", or "Basic" with TENANT:TOKEN
	const char *cookie;        // the header, with all cookies
	const char *proxy_user;    // the value of access_options.proxy_header
	bool has_more_users;       // the header came more than once
	void *tls_session;         // as tls_server_identify() takes it
};

struct access;

enum { ACCESS_PROXIES_MAX = 16 };

struct access_options {
	const char *file;         // NULL: no login, everybody is "local" and may do everything
	struct tls_server *tls;   // NULL: no TLS
	const char *proxy_header; // NULL: no proxy is trusted
	const char *proxy_from;   // its addresses, "10.0.0.0/8,::1"
};

int access_open(const struct access_options *options, struct access **ret_access,
		struct error *err);
void access_close(struct access *access);

/**
 * Read the file if it has changed; about once a second, on one thread. A damaged file leaves the old
 * lines in force. Returns whether it was read, or a negative errno with @err: for a bad line once per
 * change (-EINVAL), otherwise until the file can be read.
 */
int access_refresh(struct access *access, struct error *err);

/**
 * Who asks. Returns 0; -EACCES with @err: no credential, an unknown one, a revoked certificate; the text
 * has no secret.
 */
int access_identify(struct access *access, const struct access_request *request,
		    struct identity *ret_identity, struct error *err);

/** May @identity act in @role? 0, or -EPERM with @err. */
int access_check(const struct identity *identity, enum access_role role, struct error *err);

bool access_needs_login(const struct access *access);

/** Everybody where there is no login. */
struct identity access_local(void);

/** The cookie that the page's login sets. */
#define ACCESS_COOKIE "cairn_token"
