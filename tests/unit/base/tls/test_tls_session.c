// SPDX-License-Identifier: Apache-2.0
// Bytes through a session: whole, in both directions, also more than the socket takes at once.
#include "tests/unit/base/tls/tls_fixture.h"

enum { BYTES = 1 << 20 };

struct fixture {
	struct tls_folder folder;
	struct tls_server *server;
	struct tls_session *session;
	struct tls_client client;
	int fds[2];
};

static void open_fixture(struct fixture *f)
{
	struct error err = { 0 };

	tls_folder_open(&f->folder);
	tls_folder_issue(&f->folder, "a", "extendedKeyUsage=serverAuth\\n");
	const struct tls_server_options options = {
		.certificate_file = tls_folder_path(&f->folder, 0, "a.crt"),
		.key_file = tls_folder_path(&f->folder, 1, "a.key"),
	};
	if (tls_server_open(&options, &f->server, &err))
		fail_msg("%s", err.text);
	tls_pair(f->fds);
	assert_int_equal(0, tls_session_new(f->server, f->fds[1], &f->session));
	f->client = tls_client_open(&f->folder, f->fds[0], NULL);
}

static void close_fixture(struct fixture *f)
{
	tls_client_close(&f->client);
	tls_session_free(f->session);
	tls_server_close(f->server);
	close(f->fds[0]);
	close(f->fds[1]);
	tls_folder_close(&f->folder);
}

TEST(carries_more_than_the_socket_takes)
{
	static uint8_t out[BYTES], in[BYTES];
	struct fixture f;
	size_t sent = 0, received = 0;
	bool waited = false;

	open_fixture(&f);
	EXPECT_EQ(0, tls_handshake(&f.client, f.session), "handshake");
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (uint8_t)(i * 2654435761U >> 24);
	while (received < sizeof(in)) {
		ssize_t put = 0;

		while (sent < sizeof(out) && put >= 0) {
			put = tls_session_write(f.session, out + sent, sizeof(out) - sent);
			assert_true(put > 0 || put == -EAGAIN);
			sent += put > 0 ? (size_t)put : 0;
		}
		waited |= put == -EAGAIN;
		ssize_t got =
			gnutls_record_recv(f.client.session, in + received, sizeof(in) - received);
		assert_true(got > 0 || got == GNUTLS_E_AGAIN);
		received += got > 0 ? (size_t)got : 0;
	}
	assert_true(waited);
	assert_memory_equal(out, in, sizeof(in));
	assert_int_equal(3, gnutls_record_send(f.client.session, "abc", 3));
	uint8_t byte;
	assert_int_equal(1, tls_session_read(f.session, &byte, 1));
	EXPECT_EQ('a', byte, "first");
	EXPECT_EQ(2, tls_session_pending(f.session), "decrypted already");
	close_fixture(&f);
}

TEST(a_plain_client_fails_the_handshake)
{
	static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	struct fixture f;
	struct error err = { 0 };

	open_fixture(&f);
	EXPECT_EQ(-EAGAIN, tls_session_handshake(f.session, &err), "nothing yet");
	EXPECT_EQ(false, tls_session_wants_write(f.session), "it reads");
	assert_true(send(f.fds[0], hello, sizeof(hello), 0) > 0);
	EXPECT_EQ(-ECONNRESET, tls_session_handshake(f.session, &err), "not TLS");
	close_fixture(&f);
}

RUN_TESTS(cmocka_unit_test(carries_more_than_the_socket_takes),
	  cmocka_unit_test(a_plain_client_fails_the_handshake))
