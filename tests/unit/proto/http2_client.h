// SPDX-License-Identifier: Apache-2.0
// An HTTP/2 client that does what a gRPC library never would: it stalls, floods and lies. Test equipment.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "base/cleanup.h"
#include "tests/test.h"

struct http2_client {
	int fd;
	nghttp2_session *session;
	int status;      // the last grpc-status; -1: none
	bool was_early;  // it came before the whole body was sent
	int ended_count; // streams
	char words[400]; // the last grpc-message
	const uint8_t *body;
	size_t body_size, body_sent;
	bool body_ends;
};

static int http2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
			   const uint8_t *name, size_t name_size, const uint8_t *value,
			   size_t value_size, uint8_t flags, void *context)
{
	struct http2_client *client = context;

	(void)session, (void)frame, (void)name_size, (void)value_size, (void)flags;
	if (!strcmp((const char *)name, "grpc-status"))
		client->status = atoi((const char *)value);
	if (!strcmp((const char *)name, "grpc-status"))
		client->was_early = client->body_sent < client->body_size || !client->body_ends;
	if (!strcmp((const char *)name, "grpc-message"))
		snprintf(client->words, sizeof(client->words), "%s", (const char *)value);
	return 0;
}

static int http2_on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code,
				 void *context)
{
	(void)session, (void)stream, (void)code;
	((struct http2_client *)context)->ended_count++;
	return 0;
}

static inline void http2_flush(struct http2_client *client)
{
	const uint8_t *bytes;
	ssize_t size;

	while ((size = nghttp2_session_mem_send(client->session, &bytes)) > 0)
		if (send(client->fd, bytes, (size_t)size, MSG_NOSIGNAL) != size)
			return; // the server has closed
}

static inline int http2_socket(int port, const char *source)
{
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(source) };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	EXPECT_EQ(0, bind(fd, (struct sockaddr *)&from, sizeof(from)), "bind");
	EXPECT_EQ(0, connect(fd, (struct sockaddr *)&to, sizeof(to)), "connect");
	return fd;
}

/** Connect from @source, an address of the loopback network, and greet. @window: for answers; 0: none is read. */
static inline void http2_open(struct http2_client *client, int port, const char *source,
			      uint32_t window)
{
	const nghttp2_settings_entry settings = { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window };
	nghttp2_session_callbacks *callbacks;

	*client = (struct http2_client){ .fd = http2_socket(port, source), .status = -1 };
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, http2_on_header);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, http2_on_stream_close);
	nghttp2_session_client_new(&client->session, callbacks, client);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, &settings, 1);
	http2_flush(client);
}

static inline void http2_close(struct http2_client *client)
{
	nghttp2_session_del(client->session);
	close(client->fd);
}

static ssize_t http2_read_body(nghttp2_session *session, int32_t stream, uint8_t *bytes,
			       size_t size, uint32_t *flags, nghttp2_data_source *source,
			       void *context)
{
	struct http2_client *client = context;
	size_t left = client->body_size - client->body_sent;

	(void)session, (void)stream, (void)source;
	if (!left && !client->body_ends)
		return NGHTTP2_ERR_DEFERRED;
	size = left < size ? left : size;
	memcpy(bytes, client->body + client->body_sent, size);
	client->body_sent += size;
	if (client->body_sent == client->body_size && client->body_ends)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)size;
}

#define HTTP2_HEADER(text, content)                                                       \
	{                                                                                 \
		(uint8_t *)(text), (uint8_t *)(content), strlen(text), strlen(content), 0 \
	}

/** Begin a call with these bytes of its body; unless @ends, the rest never comes. */
static inline void http2_call(struct http2_client *client, const char *path, const void *body,
			      size_t size, bool ends)
{
	const nghttp2_nv headers[] = {
		HTTP2_HEADER(":method", "POST"),
		HTTP2_HEADER(":scheme", "http"),
		HTTP2_HEADER(":path", path),
		HTTP2_HEADER(":authority", "test"),
		HTTP2_HEADER("te", "trailers"),
		HTTP2_HEADER("content-type", "application/grpc"),
		HTTP2_HEADER("grpc-encoding", "gzip"),
	};
	const nghttp2_data_provider provider = { .read_callback = http2_read_body };

	client->body = body;
	client->body_size = size;
	client->body_sent = 0;
	client->body_ends = ends;
	nghttp2_submit_request(client->session, NULL, headers, ARRAY_SIZE(headers), &provider,
			       NULL);
	http2_flush(client);
}

/** Send the rest of the body of stream 1. */
static inline void http2_finish_call(struct http2_client *client)
{
	client->body_ends = true;
	nghttp2_session_resume_data(client->session, 1);
	http2_flush(client);
}

/** Read and react for so long. */
static inline void http2_read_for(struct http2_client *client, int ms)
{
	struct pollfd at = { .fd = client->fd, .events = POLLIN };
	uint8_t bytes[16384];

	while (poll(&at, 1, ms) > 0) {
		ssize_t size = recv(client->fd, bytes, sizeof(bytes), 0);

		if (size <= 0 || nghttp2_session_mem_recv(client->session, bytes, (size_t)size) < 0)
			return;
		http2_flush(client);
	}
}

/** Read and react until @ended streams have ended. False: the server closed the connection, or 20 s have passed. */
static inline bool http2_await(struct http2_client *client, int ended)
{
	struct pollfd at = { .fd = client->fd, .events = POLLIN };
	uint8_t bytes[16384];

	while (client->ended_count < ended) {
		ssize_t size =
			poll(&at, 1, 20000) > 0 ? recv(client->fd, bytes, sizeof(bytes), 0) : 0;

		if (size <= 0 || nghttp2_session_mem_recv(client->session, bytes, (size_t)size) < 0)
			return false;
		http2_flush(client);
	}
	return true;
}

/** Read nothing but the end. False: it has not come within 20 s. */
static inline bool http2_await_close(int fd)
{
	struct pollfd at = { .fd = fd, .events = POLLIN };
	uint8_t bytes[16384];

	while (poll(&at, 1, 20000) > 0)
		if (recv(fd, bytes, sizeof(bytes), 0) <= 0)
			return true;
	return false;
}
