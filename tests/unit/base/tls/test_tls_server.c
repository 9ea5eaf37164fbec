// SPDX-License-Identifier: Apache-2.0
// A server's files: which are refused, when they are read again, and whose certificate is believed.
#include "tests/unit/base/tls/tls_fixture.h"

#include <sys/resource.h>

#define SERVER "extendedKeyUsage=serverAuth\\nsubjectAltName=DNS:localhost\\n"
#define CLIENT "extendedKeyUsage=clientAuth\\n"

static int open_server(struct tls_folder *f, const char *certificate, const char *key,
		       const char *ca, const char *crl, struct tls_server **server,
		       struct error *err)
{
	const struct tls_server_options options = {
		.certificate_file = tls_folder_path(f, 0, certificate),
		.key_file = tls_folder_path(f, 1, key),
		.client_ca_file = ca ? tls_folder_path(f, 2, ca) : NULL,
		.crl_file = crl ? tls_folder_path(f, 3, crl) : NULL,
	};

	return tls_server_open(&options, server, err);
}

static const struct {
	const char *what;
	const char *certificate, *key, *ca, *crl;
	const char *error; // a part of it; NULL: accepted
} files[] = {
	{ "a pair", "a.crt", "a.key", NULL, NULL, NULL },
	{ "with CAs", "a.crt", "a.key", "ca.crt", NULL, NULL },
	{ "another's key", "a.crt", "b.key", NULL, NULL, "is not the key of" },
	{ "no file", "none.crt", "a.key", NULL, NULL, "none.crt" },
	{ "no key", "a.crt", "none.key", NULL, NULL, "none.key" },
	{ "a key as certificate", "a.key", "a.key", NULL, NULL, "expected the certificate" },
	{ "a certificate as key", "a.crt", "a.crt", NULL, NULL, "expected a private key" },
	{ "empty", "empty", "a.key", NULL, NULL, "expected the certificate" },
	{ "an empty CA", "a.crt", "a.key", "empty", NULL, "CA certificates in PEM" },
	{ "a CA as CRL", "a.crt", "a.key", "ca.crt", "ca.crt", "expected CRLs" },
	{ "an empty CRL", "a.crt", "a.key", "ca.crt", "empty", "expected CRLs" },
};

TEST(refuses_files_by_name)
{
	struct tls_folder f;

	tls_folder_open(&f);
	tls_folder_issue(&f, "a", SERVER);
	tls_folder_issue(&f, "b", SERVER);
	shell("touch %s/empty", f.folder);
	for EACH (row, files) {
		struct tls_server *server = NULL;
		struct error err = { 0 };
		int rc = open_server(&f, row->certificate, row->key, row->ca, row->crl, &server,
				     &err);

		EXPECT_EQ(row->error != NULL, rc < 0, row->what);
		if (row->error && !strstr(err.text, row->error))
			fail_msg("%s: %s", row->what, err.text);
		if (!rc)
			tls_server_close(server);
	}
	tls_folder_close(&f);
}

TEST(reads_changed_files_once)
{
	struct tls_server *server;
	struct tls_folder f;
	struct error err = { 0 };

	tls_folder_open(&f);
	tls_folder_issue(&f, "a", SERVER);
	tls_folder_issue(&f, "b", SERVER);
	assert_int_equal(0, open_server(&f, "a.crt", "a.key", NULL, NULL, &server, &err));
	EXPECT_EQ(0, tls_server_refresh(server, &err), "unchanged");
	shell("cd %s && mv b.crt a.crt", f.folder);
	EXPECT_EQ(-EINVAL, tls_server_refresh(server, &err), "half of a renewal");
	EXPECT_EQ(0, tls_server_refresh(server, &err), "said once");
	shell("cd %s && mv b.key a.key", f.folder);
	EXPECT_EQ(1, tls_server_refresh(server, &err), "the other half");
	EXPECT_EQ(0, tls_server_refresh(server, &err), "unchanged");
	shell("cd %s && rm a.crt", f.folder);
	EXPECT_EQ(-ENOENT, tls_server_refresh(server, &err), "gone");
	tls_server_close(server);
	tls_folder_close(&f);
}

TEST(reads_unchanged_files_after_a_passing_error)
{
	struct rlimit limit, none;
	struct tls_server *server;
	struct tls_folder f;
	struct error err = { 0 };

	tls_folder_open(&f);
	tls_folder_issue(&f, "a", SERVER);
	tls_folder_issue(&f, "b", SERVER);
	assert_int_equal(0, open_server(&f, "a.crt", "a.key", NULL, NULL, &server, &err));
	shell("cd %s && mv b.crt a.crt && mv b.key a.key", f.folder);
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = (struct rlimit){ 0, limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	int first = tls_server_refresh(server, &err), second = tls_server_refresh(server, &err);
	setrlimit(RLIMIT_NOFILE, &limit);
	EXPECT_EQ(-EMFILE, first, "no descriptor");
	EXPECT_EQ(-EMFILE, second, "still none");
	EXPECT_EQ(1, tls_server_refresh(server, &err), "read, though unchanged since");
	EXPECT_EQ(0, tls_server_refresh(server, &err), "once");
	tls_server_close(server);
	tls_folder_close(&f);
}

/** The name of the peer with certificate @name, or the error. */
static void identify(struct tls_folder *f, struct tls_server *server, const char *name,
		     char ret_text[ERROR_TEXT_BYTES])
{
	struct tls_session *session;
	struct error err = { 0 };
	char peer[TLS_NAME_BYTES] = "";
	int fds[2];

	tls_pair(fds);
	assert_int_equal(0, tls_session_new(server, fds[1], &session));
	struct tls_client client = tls_client_open(f, fds[0], name);
	EXPECT_EQ(0, tls_handshake(&client, session), "handshake");
	int rc = tls_server_identify(server, tls_session_handle(session), peer, &err);
	snprintf(ret_text, ERROR_TEXT_BYTES, "%s", rc ? err.text : peer);
	tls_client_close(&client);
	tls_session_free(session);
	close(fds[0]);
	close(fds[1]);
}

static const struct {
	const char *what;
	const char *extensions;
	const char *name;
} names[] = {
	{ "a common name", CLIENT, "who" },
	{ "a DNS name", CLIENT "subjectAltName=DNS:a.example,DNS:b.example\\n", "a.example" },
	{ "a URI", CLIENT "subjectAltName=URI:spiffe://example/a\\n", "spiffe://example/a" },
	{ "DNS before URI", CLIENT "subjectAltName=URI:spiffe://x,DNS:a.example\\n", "a.example" },
	{ "an address is no name", CLIENT "subjectAltName=IP:10.0.0.1\\n", "who" },
	{ "for servers", SERVER, "its purpose is not client authentication" },
};

TEST(names_the_peer_of_its_ca)
{
	struct tls_server *server;
	char text[ERROR_TEXT_BYTES];
	struct tls_folder f, other;
	struct error err = { 0 };

	tls_folder_open(&f);
	tls_folder_open(&other);
	tls_folder_issue(&f, "a", SERVER);
	tls_folder_issue(&other, "who", CLIENT);
	assert_int_equal(0, open_server(&f, "a.crt", "a.key", "ca.crt", NULL, &server, &err));
	for EACH (row, names) {
		tls_folder_issue(&f, "who", row->extensions);
		identify(&f, server, "who", text);
		if (!strstr(text, row->name))
			fail_msg("%s: \"%s\", expected \"%s\"", row->what, text, row->name);
	}
	identify(&f, server, NULL, text);
	EXPECT_STR("the peer has no certificate", text, "none");
	identify(&other, server, "who", text);
	assert_non_null(strstr(text, "is refused"));

	// Another CA is in force from the next request on.
	shell("cp %s/ca.crt %s/ca.crt", other.folder, f.folder);
	EXPECT_EQ(1, tls_server_refresh(server, &err), "read");
	identify(&other, server, "who", text);
	EXPECT_STR("who", text, "the new CA");
	tls_server_close(server);
	tls_folder_close(&other);
	tls_folder_close(&f);
}

RUN_TESTS(cmocka_unit_test(refuses_files_by_name), cmocka_unit_test(reads_changed_files_once),
	  cmocka_unit_test(reads_unchanged_files_after_a_passing_error),
	  cmocka_unit_test(names_the_peer_of_its_ca))
