// SPDX-License-Identifier: Apache-2.0
#include "base/tls/tls_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/path_state.h"

enum { FILE_COUNT = 4 };

/** What the files said when they were read last. */
struct material {
	gnutls_x509_crt_t chain[TLS_CHAIN_MAX];
	unsigned int chain_count;
	gnutls_x509_privkey_t key;
	gnutls_x509_trust_list_t trust; // NULL: clients are not asked
};

struct tls_server {
	char *paths[FILE_COUNT]; // certificate, key, CAs, CRLs; NULL: none
	struct path_state states[FILE_COUNT];
	pthread_mutex_t lock; // guards what follows
	struct material material;
};

enum { FILE_CERTIFICATE, FILE_KEY, FILE_CA, FILE_CRL };

// The server of this process; libmicrohttpd's callback has no context.
static _Atomic(struct tls_server *) current;

static int read_file(const char *path, struct buffer *buffer, struct error *err)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	uint8_t bytes[8192];
	size_t got;

	if (!file)
		return error_errno(err, -errno, "tls: %s", path);
	buffer->size_max = TLS_FILE_BYTES_MAX;
	while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
		buffer_append(buffer, bytes, got);
	explicit_bzero(bytes, sizeof(bytes));
	if (ferror(file))
		return error_errno(err, -EIO, "tls: %s", path);
	if (buffer->rc)
		return error_set(err, buffer->rc, "tls: %s: larger than %d MiB", path,
				 TLS_FILE_BYTES_MAX >> 20);
	return 0;
}

static void erase_buffer(struct buffer *buffer)
{
	if (buffer->bytes)
		explicit_bzero(buffer->bytes, buffer->size);
	buffer_deinit(buffer);
}

static gnutls_datum_t datum_of(const struct buffer *buffer)
{
	return (gnutls_datum_t){ buffer->bytes, (unsigned int)buffer->size };
}

static void material_deinit(struct material *material)
{
	for (unsigned int i = 0; i < material->chain_count; i++)
		gnutls_x509_crt_deinit(material->chain[i]);
	if (material->key)
		gnutls_x509_privkey_deinit(material->key);
	if (material->trust)
		gnutls_x509_trust_list_deinit(material->trust, 1);
	*material = (struct material){ 0 };
}

static int fail(struct error *err, const char *path, int code, const char *remedy)
{
	return error_set(err, code == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL, "tls: %s: %s; %s",
			 path, gnutls_strerror(code), remedy);
}

static int load_key_pair(struct tls_server *server, struct material *material, struct error *err)
{
	_cleanup_(erase_buffer) struct buffer chain = { 0 }, key = { 0 };
	const char *paths[2] = { server->paths[FILE_CERTIFICATE], server->paths[FILE_KEY] };
	unsigned int count = TLS_CHAIN_MAX;
	uint8_t id[64], key_id[64];
	size_t id_bytes = sizeof(id), key_id_bytes = sizeof(key_id);

	int rc = read_file(paths[0], &chain, err);
	if (!rc)
		rc = read_file(paths[1], &key, err);
	if (rc)
		return rc;
	gnutls_datum_t bytes = datum_of(&chain);
	int code = gnutls_x509_crt_list_import(material->chain, &count, &bytes, GNUTLS_X509_FMT_PEM,
					       GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
	if (code < 0)
		return fail(err, paths[0], code, "expected the certificate in PEM");
	material->chain_count = (unsigned int)code;
	bytes = datum_of(&key);
	code = gnutls_x509_privkey_init(&material->key);
	if (!code)
		code = gnutls_x509_privkey_import2(material->key, &bytes, GNUTLS_X509_FMT_PEM, NULL,
						   GNUTLS_PKCS_PLAIN);
	if (code < 0)
		return fail(err, paths[1], code, "expected a private key in PEM, not encrypted");
	if (!material->chain_count ||
	    gnutls_x509_crt_get_key_id(material->chain[0], GNUTLS_KEYID_USE_SHA256, id,
				       &id_bytes) ||
	    gnutls_x509_privkey_get_key_id(material->key, GNUTLS_KEYID_USE_SHA256, key_id,
					   &key_id_bytes) ||
	    id_bytes != key_id_bytes || memcmp(id, key_id, id_bytes) != 0)
		return error_set(err, -EINVAL, "tls: %s is not the key of %s; renew both together",
				 paths[1], paths[0]);
	return 0;
}

static int load_crls(struct tls_server *server, struct material *material, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer file = { 0 };
	int rc = read_file(server->paths[FILE_CRL], &file, err);
	if (rc)
		return rc;

	gnutls_datum_t bytes = datum_of(&file);
	int code = gnutls_x509_trust_list_add_trust_mem(material->trust, NULL, &bytes,
							GNUTLS_X509_FMT_PEM, 0, 0);
	// The number of CRLs: a list of no CA in the file must not look like one that is in force.
	return code > 0 ? 0
			: fail(err, server->paths[FILE_CRL],
			       code ? code : GNUTLS_E_NO_CERTIFICATE_FOUND,
			       "expected CRLs in PEM of the CAs in --tls-client-ca");
}

static int load_trust(struct tls_server *server, struct material *material, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer file = { 0 };

	if (!server->paths[FILE_CA])
		return 0;
	int rc = read_file(server->paths[FILE_CA], &file, err);
	if (rc)
		return rc;
	gnutls_datum_t bytes = datum_of(&file);
	int code = gnutls_x509_trust_list_init(&material->trust, 0);
	if (!code)
		code = gnutls_x509_trust_list_add_trust_mem(material->trust, &bytes, NULL,
							    GNUTLS_X509_FMT_PEM, 0, 0);
	if (code <= 0)
		return fail(err, server->paths[FILE_CA],
			    code ? code : GNUTLS_E_NO_CERTIFICATE_FOUND,
			    "expected the clients' CA certificates in PEM");
	return server->paths[FILE_CRL] ? load_crls(server, material, err) : 0;
}

static int load(struct tls_server *server, struct error *err)
{
	_cleanup_(material_deinit) struct material material = { 0 };
	struct path_state states[FILE_COUNT];

	for (int i = 0; i < FILE_COUNT; i++)
		states[i] = path_state_of(server->paths[i]);
	int rc = load_key_pair(server, &material, err);
	if (!rc)
		rc = load_trust(server, &material, err);
	// Damaged files are read again when somebody changes them; whatever else failed may pass by itself.
	if (!rc || rc == -EINVAL)
		memcpy(server->states, states, sizeof(states));
	if (rc)
		return rc;
	pthread_mutex_lock(&server->lock);
	struct material old = server->material;
	server->material = material;
	pthread_mutex_unlock(&server->lock);
	material = old;
	return 0;
}

int tls_server_open(const struct tls_server_options *options, struct tls_server **ret_server,
		    struct error *err)
{
	const char *const paths[FILE_COUNT] = { options->certificate_file, options->key_file,
						options->client_ca_file, options->crl_file };
	struct tls_server *server = calloc(1, sizeof(*server));
	int rc = 0;

	if (!server)
		return error_set(err, -ENOMEM, "tls: out of memory");
	pthread_mutex_init(&server->lock, NULL);
	for (int i = 0; i < FILE_COUNT; i++) {
		server->paths[i] = paths[i] ? strdup(paths[i]) : NULL;
		if (paths[i] && !server->paths[i])
			rc = error_set(err, -ENOMEM, "tls: out of memory");
	}
	if (!rc)
		rc = load(server, err);
	if (rc) {
		tls_server_close(server);
		return rc;
	}
	atomic_store(&current, server);
	*ret_server = server;
	return 0;
}

void tls_server_close(struct tls_server *server)
{
	struct tls_server *expected = server;

	if (!server)
		return;
	atomic_compare_exchange_strong(&current, &expected, NULL);
	material_deinit(&server->material);
	for (int i = 0; i < FILE_COUNT; i++)
		free(server->paths[i]);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

int tls_server_refresh(struct tls_server *server, struct error *err)
{
	for (int i = 0; i < FILE_COUNT; i++) {
		if (!path_state_equal(server->states[i], path_state_of(server->paths[i]))) {
			int rc = load(server, err);

			return rc ? rc : 1;
		}
	}
	return 0;
}

uint64_t tls_server_expires_s(struct tls_server *server)
{
	pthread_mutex_lock(&server->lock);
	time_t expires = gnutls_x509_crt_get_expiration_time(server->material.chain[0]);
	pthread_mutex_unlock(&server->lock);
	return expires < 0 ? 0 : (uint64_t)expires;
}

// ---- the server's certificate -----------------------------------------------------------------

/** Copies, which GnuTLS frees: a reload may replace the originals during the handshake. */
static int copy_key_pair(struct tls_server *server, gnutls_pcert_st **ret_certificates,
			 unsigned int *ret_count, gnutls_privkey_t *ret_key)
{
	const struct material *material = &server->material;
	gnutls_pcert_st *certificates = gnutls_calloc(material->chain_count, sizeof(*certificates));
	gnutls_privkey_t key = NULL;
	unsigned int count = 0;
	int code = certificates ? gnutls_privkey_init(&key) : GNUTLS_E_MEMORY_ERROR;

	if (!code)
		code = gnutls_privkey_import_x509(key, material->key, GNUTLS_PRIVKEY_IMPORT_COPY);
	while (!code && count < material->chain_count) {
		code = gnutls_pcert_import_x509(&certificates[count], material->chain[count], 0);
		count += !code;
	}
	if (code) {
		while (count)
			gnutls_pcert_deinit(&certificates[--count]);
		gnutls_free(certificates);
		if (key)
			gnutls_privkey_deinit(key);
		return -1;
	}
	*ret_certificates = certificates;
	*ret_count = count;
	*ret_key = key;
	return 0;
}

static int retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
		    gnutls_pcert_st **certificates, unsigned int *count, gnutls_ocsp_data_st **ocsp,
		    unsigned int *ocsp_count, gnutls_privkey_t *key, unsigned int *flags)
{
	struct tls_server *server = atomic_load(&current);

	(void)info, (void)ocsp;
	*ocsp_count = 0;
	*flags = GNUTLS_CERT_RETR_DEINIT_ALL;
	if (!server)
		return -1;
	pthread_mutex_lock(&server->lock);
	int rc = copy_key_pair(server, certificates, count, key);
	if (server->material.trust) {
		gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
		// Clients send what they have, whichever CAs were known when the server started.
		gnutls_certificate_send_x509_rdn_sequence(session, 1);
	}
	pthread_mutex_unlock(&server->lock);
	return rc;
}

void *tls_server_certificate_callback(void)
{
	return (void *)retrieve;
}

// ---- the peer's certificate ---------------------------------------------------------------------

static void free_chain(gnutls_x509_crt_t *chain, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		gnutls_x509_crt_deinit(chain[i]);
}

static int explain(unsigned int status, struct error *err)
{
	const char *why =
		status & GNUTLS_CERT_REVOKED            ? "it is revoked"
		: status & GNUTLS_CERT_EXPIRED          ? "it has expired"
		: status & GNUTLS_CERT_NOT_ACTIVATED    ? "it is not valid yet"
		: status & GNUTLS_CERT_SIGNER_NOT_FOUND ? "its CA is not in --tls-client-ca"
		: status & GNUTLS_CERT_PURPOSE_MISMATCH ? "its purpose is not client authentication"
		: status & GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED
			? "the CRL in --tls-crl has expired"
			: "its signature cannot be verified";

	return error_set(err, -EKEYREJECTED, "the client certificate is refused: %s", why);
}

/** The first subject alternative name of @type. */
static bool read_san(gnutls_x509_crt_t certificate, unsigned int type, char name[TLS_NAME_BYTES])
{
	for (unsigned int i = 0; i < 64; i++) {
		size_t size = TLS_NAME_BYTES - 1;
		int found = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &size, NULL);

		if (found == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			return false;
		if (found != (int)type)
			continue;
		name[size] = '\0';
		return strlen(name) == size && size > 0;
	}
	return false;
}

static int read_name(gnutls_x509_crt_t certificate, char name[TLS_NAME_BYTES], struct error *err)
{
	size_t size = TLS_NAME_BYTES;

	if (read_san(certificate, GNUTLS_SAN_DNSNAME, name) ||
	    read_san(certificate, GNUTLS_SAN_URI, name))
		return 0;
	if (!gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name,
					   &size) &&
	    size && strlen(name) == size)
		return 0;
	return error_set(err, -EKEYREJECTED,
			 "the client certificate is refused: it has neither a DNS name, a URI nor "
			 "a common name");
}

static int verify(struct tls_server *server, gnutls_x509_crt_t *chain, unsigned int count,
		  struct error *err)
{
	gnutls_typed_vdata_st purpose = { GNUTLS_DT_KEY_PURPOSE_OID,
					  (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT, 0 };
	unsigned int status = 0;

	pthread_mutex_lock(&server->lock);
	int code =
		server->material.trust
			? gnutls_x509_trust_list_verify_crt2(server->material.trust, chain, count,
							     &purpose, 1, 0, &status, NULL)
			: GNUTLS_E_NO_CERTIFICATE_FOUND;
	pthread_mutex_unlock(&server->lock);
	return code < 0 ? explain(GNUTLS_CERT_SIGNER_NOT_FOUND, err)
	       : status ? explain(status, err)
			: 0;
}

int tls_server_identify(struct tls_server *server, void *session, char ret_name[TLS_NAME_BYTES],
			struct error *err)
{
	gnutls_x509_crt_t chain[TLS_CHAIN_MAX];
	unsigned int sent = 0, count = 0;
	char name[TLS_NAME_BYTES] = "";
	int rc = 0;
	const gnutls_datum_t *bytes = gnutls_certificate_get_peers(session, &sent);

	if (!bytes || !sent)
		return error_set(err, -ENOENT, "the peer has no certificate");
	if (sent > TLS_CHAIN_MAX)
		return error_set(err, -EKEYREJECTED,
				 "the client certificate is refused: its chain has %u certificates "
				 "(limit %d)",
				 sent, TLS_CHAIN_MAX);
	while (!rc && count < sent) {
		if (gnutls_x509_crt_init(&chain[count])) {
			rc = error_set(err, -ENOMEM, "tls: out of memory");
			break;
		}
		if (gnutls_x509_crt_import(chain[count], &bytes[count], GNUTLS_X509_FMT_DER))
			rc = error_set(err, -EKEYREJECTED,
				       "the client certificate is refused: it cannot be read");
		count++;
	}
	if (!rc)
		rc = verify(server, chain, count, err);
	if (!rc)
		rc = read_name(chain[0], name, err);
	free_chain(chain, count);
	if (!rc)
		memcpy(ret_name, name, sizeof(name));
	return rc;
}
