// SPDX-License-Identifier: Apache-2.0
// A debuginfod server with a chosen answer, on a port of its own.
#pragma once

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum double_answer {
	ANSWER_FILE,
	ANSWER_NOT_FOUND,
	ANSWER_ERROR,   // 503
	ANSWER_SILENCE, // it reads the request and never answers
	ANSWER_HALF,    // of the file, then it hangs up
};

struct debuginfod_double {
	int listener;
	char url[64];
	pthread_t thread;
	_Atomic enum double_answer answer;
	const void *bytes; // of the file
	size_t size;
	atomic_uint requests;
	char path[256]; // of the last request
};

static inline void double_reply(struct debuginfod_double *server, int peer)
{
	char head[128];
	size_t size = server->size;

	switch (server->answer) {
	case ANSWER_NOT_FOUND:
		(void)!write(peer, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 45);
		return;
	case ANSWER_ERROR:
		(void)!write(peer, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 40);
		return;
	case ANSWER_SILENCE: // until the other side hangs up
		(void)!read(peer, head, sizeof(head));
		return;
	case ANSWER_HALF:
		size /= 2;
		break;
	case ANSWER_FILE:
		break;
	}
	int count = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
			     server->size);
	(void)!write(peer, head, (size_t)count);
	for (size_t at = 0; at < size;) {
		ssize_t written =
			send(peer, (const char *)server->bytes + at, size - at, MSG_NOSIGNAL);

		if (written <= 0)
			return;
		at += (size_t)written;
	}
}

static inline void *double_run(void *context)
{
	struct debuginfod_double *server = context;
	char request[1024];
	int peer;

	while ((peer = accept(server->listener, NULL, NULL)) >= 0) {
		ssize_t size = read(peer, request, sizeof(request) - 1);

		request[size > 0 ? size : 0] = '\0';
		sscanf(request, "GET %255s", server->path);
		if (size > 0) {
			atomic_fetch_add(&server->requests, 1);
			double_reply(server, peer);
		}
		close(peer);
	}
	return NULL;
}

static inline void double_open(struct debuginfod_double *server, enum double_answer answer,
			       const void *bytes, size_t size)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t address_size = sizeof(address);

	memset(server, 0, sizeof(*server));
	server->answer = answer;
	server->bytes = bytes;
	server->size = size;
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->listener >= 0);
	assert_int_equal(0, bind(server->listener, (struct sockaddr *)&address, sizeof(address)));
	assert_int_equal(0, listen(server->listener, 8));
	assert_int_equal(0,
			 getsockname(server->listener, (struct sockaddr *)&address, &address_size));
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u/", ntohs(address.sin_port));
	assert_int_equal(0, pthread_create(&server->thread, NULL, double_run, server));
}

static inline void double_close(struct debuginfod_double *server)
{
	shutdown(server->listener, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	close(server->listener);
}
