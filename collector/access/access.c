// SPDX-License-Identifier: Apache-2.0
#include "collector/access/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/path_state.h"
#include "collector/access/access_file.h"
#include "collector/access/basic_credential.h"

/** Addresses whose first bits are those of `bytes`. */
struct network {
	int family;
	uint8_t bytes[16];
	unsigned int bits;
};

struct access {
	char *path; // NULL: no login
	struct tls_server *tls;
	struct network proxies[ACCESS_PROXIES_MAX];
	uint32_t proxy_count;
	struct path_state state;
	pthread_rwlock_t lock; // guards the lines
	struct access_file file;
};

static const struct {
	enum access_role role;
	const char *word;
} role_words[] = {
	{ ACCESS_INGEST, "ingest" },
	{ ACCESS_READ, "read" },
	{ ACCESS_UPLOAD, "upload" },
	{ ACCESS_ADMIN, "admin" },
};

// ---- the proxy's addresses ------------------------------------------------------------------

static int parse_network(const char *text, struct network *ret_network)
{
	char address[INET6_ADDRSTRLEN];
	struct network network = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	unsigned int bits_max = network.family == AF_INET6 ? 128 : 32;
	size_t size = strcspn(text, "/");
	char *end = NULL;

	if (size >= sizeof(address))
		return -EINVAL;
	snprintf(address, sizeof(address), "%.*s", (int)size, text);
	if (inet_pton(network.family, address, network.bytes) != 1)
		return -EINVAL;
	unsigned long bits = text[size] ? strtoul(text + size + 1, &end, 10) : bits_max;
	if (text[size] && (end == text + size + 1 || *end))
		return -EINVAL;
	if (bits > bits_max || !bits) // 0 bits would trust everybody
		return -EINVAL;
	network.bits = (unsigned int)bits;
	*ret_network = network;
	return 0;
}

static int parse_networks(struct access *access, const char *text, struct error *err)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest;

	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		if (access->proxy_count == ACCESS_PROXIES_MAX)
			return error_set(err, -E2BIG, "--proxy-from: more than %d addresses",
					 ACCESS_PROXIES_MAX);
		if (parse_network(word, &access->proxies[access->proxy_count++]))
			return error_set(
				err, -EINVAL,
				"--proxy-from: \"%.60s\" is not an address or network such "
				"as 10.1.2.3, 10.0.0.0/8 or ::1",
				word);
	}
	return 0;
}

static bool in_network(const struct network *network, int family, const uint8_t *bytes)
{
	unsigned int whole = network->bits / 8, rest = network->bits % 8;

	return family == network->family && memcmp(bytes, network->bytes, whole) == 0 &&
	       (!rest || !((bytes[whole] ^ network->bytes[whole]) >> (8 - rest)));
}

static bool is_proxy(const struct access *access, const char *address)
{
	uint8_t bytes[16];

	if (!address)
		return false;
	// An IPv4 peer of a socket for both.
	if (strncasecmp(address, "::ffff:", 7) == 0 && strchr(address, '.'))
		address += 7;
	int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(family, address, bytes) != 1)
		return false;
	for (uint32_t i = 0; i < access->proxy_count; i++)
		if (in_network(&access->proxies[i], family, bytes))
			return true;
	return false;
}

// ---- opening ----------------------------------------------------------------------------------

static int read_lines(struct access *access, struct error *err)
{
	struct access_file file = { 0 };
	struct path_state state = path_state_of(access->path);
	int rc = access_file_read(access->path, &file, err);

	// A bad line is read again when somebody changes it; whatever else failed may pass by itself.
	if (!rc || rc == -EINVAL)
		access->state = state;
	if (rc)
		return rc;
	pthread_rwlock_wrlock(&access->lock);
	struct access_file old = access->file;
	access->file = file;
	pthread_rwlock_unlock(&access->lock);
	access_file_deinit(&old);
	return 0;
}

int access_open(const struct access_options *options, struct access **ret_access, struct error *err)
{
	struct access *access = calloc(1, sizeof(*access));
	int rc = 0;

	if (!access)
		return error_set(err, -ENOMEM, "out of memory");
	pthread_rwlock_init(&access->lock, NULL);
	access->tls = options->tls;
	if (options->proxy_header && !options->proxy_from)
		rc = error_set(err, -EINVAL,
			       "--proxy-header: needs --proxy-from, the addresses of the proxy: "
			       "others could send the header, too");
	if (!rc && options->proxy_from)
		rc = parse_networks(access, options->proxy_from, err);
	if (!rc && options->file) {
		access->path = strdup(options->file);
		rc = access->path ? read_lines(access, err)
				  : error_set(err, -ENOMEM, "out of memory");
	}
	if (rc) {
		access_close(access);
		return rc;
	}
	*ret_access = access;
	return 0;
}

void access_close(struct access *access)
{
	if (!access)
		return;
	access_file_deinit(&access->file);
	pthread_rwlock_destroy(&access->lock);
	free(access->path);
	free(access);
}

int access_refresh(struct access *access, struct error *err)
{
	if (!access->path || path_state_equal(access->state, path_state_of(access->path)))
		return 0;
	int rc = read_lines(access, err);
	return rc ? rc : 1;
}

bool access_needs_login(const struct access *access)
{
	return access->path;
}

// ---- identities -------------------------------------------------------------------------------

struct identity access_local(void)
{
	return (struct identity){
		.key = "local",
		.tenant = ACCESS_ALL_TENANTS,
		.roles = ACCESS_INGEST | ACCESS_READ | ACCESS_UPLOAD | ACCESS_ADMIN,
	};
}

static void fill(struct identity *identity, const struct access_entry *entry, const char *kind,
		 const char *name)
{
	*identity = (struct identity){ .roles = entry->roles };
	snprintf(identity->key, sizeof(identity->key), "%s:%s", kind, name);
	memcpy(identity->tenant, entry->tenant, sizeof(identity->tenant));
}

static int by_token(struct access *access, const char *token, struct identity *ret_identity,
		    struct error *err)
{
	pthread_rwlock_rdlock(&access->lock);
	const struct access_entry *entry = access_file_find_token(&access->file, token);
	if (entry)
		fill(ret_identity, entry, "token", entry->name);
	pthread_rwlock_unlock(&access->lock);
	return entry ? 0
		     : error_set(err, -EACCES,
				 "the token is not known; it may have been replaced: read it again "
				 "from where it is kept");
}

static int by_name(struct access *access, enum access_kind kind, const char *name,
		   struct identity *ret_identity, struct error *err)
{
	const char *word = kind == ACCESS_CERTIFICATE ? "certificate" : "person";

	pthread_rwlock_rdlock(&access->lock);
	const struct access_entry *entry = access_file_find_name(&access->file, kind, name);
	if (entry)
		fill(ret_identity, entry, word, name);
	pthread_rwlock_unlock(&access->lock);
	return entry ? 0
		     : error_set(err, -EACCES,
				 "the access file has no line for %s \"%.100s\"; add one", word,
				 name);
}

/** The token in a Cookie header. */
static bool token_of_cookie(const char *cookie, char ret_token[ACCESS_TOKEN_BYTES])
{
	const size_t size = strlen(ACCESS_COOKIE "=");

	for (const char *at = cookie; at; at = strchr(at, ';')) {
		at += strspn(at, "; ");
		if (strncmp(at, ACCESS_COOKIE "=", size) != 0)
			continue;
		size_t length = strcspn(at + size, "; ");
		if (!length || length >= ACCESS_TOKEN_BYTES)
			return false;
		memcpy(ret_token, at + size, length);
		ret_token[length] = '\0';
		return true;
	}
	return false;
}

/* The tenant is the token's. A user that says another one is a mistake, which would be found late: as missing profiles. */
static int by_basic(struct access *access, const char *encoded, struct identity *ret_identity,
		    struct error *err)
{
	char tenant[ACCESS_TENANT_BYTES], token[ACCESS_TOKEN_BYTES];
	struct identity identity;

	if (basic_credential_read(encoded, tenant, token))
		return error_set(err, -EACCES,
				 "expected \"Authorization: Basic\" with the tenant as the user "
				 "and the token as the password");
	int rc = by_token(access, token, &identity, err);
	explicit_bzero(token, sizeof(token));
	if (rc)
		return rc;
	bool has_one = *identity.tenant && strcmp(identity.tenant, ACCESS_ALL_TENANTS) != 0;
	if (has_one && *tenant && strcmp(identity.tenant, tenant) != 0)
		return error_set(err, -EACCES, "the user is not the token's tenant");
	*ret_identity = identity;
	return 0;
}

/* A proxy that adds its header to its client's, or appends to it, must not let the client choose who it is. */
static int by_proxy(struct access *access, const struct access_request *request,
		    struct identity *ret_identity, struct error *err)
{
	if (request->has_more_users || request->proxy_user[strcspn(request->proxy_user, ", \t")])
		return error_set(err, -EACCES,
				 "--proxy-header: the proxy named more than one person; let it "
				 "remove the header from its clients' requests");
	return by_name(access, ACCESS_PERSON, request->proxy_user, ret_identity, err);
}

static int by_certificate(struct access *access, void *session, struct identity *ret_identity,
			  struct error *err)
{
	char name[TLS_NAME_BYTES];
	int rc = tls_server_identify(access->tls, session, name, err);

	if (rc) {
		err->code = rc == -EKEYREJECTED ? -EACCES : rc;
		return err->code;
	}
	rc = by_name(access, ACCESS_CERTIFICATE, name, ret_identity, err);
	if (!rc)
		memcpy(ret_identity->node, name, sizeof(name));
	return rc;
}

int access_identify(struct access *access, const struct access_request *request,
		    struct identity *ret_identity, struct error *err)
{
	char token[ACCESS_TOKEN_BYTES];

	if (!access->path) {
		*ret_identity = access_local();
		return 0;
	}
	// A credential that is shown must hold: none falls back to another.
	if (request->authorization) {
		if (strncasecmp(request->authorization, "Bearer ", 7) == 0)
			return by_token(access, request->authorization + 7, ret_identity, err);
		if (strncasecmp(request->authorization, "Basic ", 6) == 0)
			return by_basic(access, request->authorization + 6, ret_identity, err);
		return error_set(err, -EACCES, "expected \"Authorization: Bearer TOKEN\"");
	}
	if (request->cookie && token_of_cookie(request->cookie, token)) {
		int rc = by_token(access, token, ret_identity, err);

		explicit_bzero(token, sizeof(token));
		return rc;
	}
	if (request->proxy_user && (*request->proxy_user || request->has_more_users) &&
	    is_proxy(access, request->address))
		return by_proxy(access, request, ret_identity, err);
	if (access->tls && request->tls_session) {
		int rc = by_certificate(access, request->tls_session, ret_identity, err);

		if (rc != -ENOENT)
			return rc;
	}
	return error_set(
		err, -EACCES,
		"a login is needed: send \"Authorization: Bearer TOKEN\" (--token-file), or "
		"show a client certificate");
}

int access_check(const struct identity *identity, enum access_role role, struct error *err)
{
	if (identity->roles & role)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(role_words); i++)
		if (role_words[i].role == role)
			return error_set(err, -EPERM,
					 "%.100s lacks the role %s; add it in the access file",
					 identity->key, role_words[i].word);
	return error_set(err, -EPERM, "no such role");
}
