// SPDX-License-Identifier: Apache-2.0
// A double of the Kubernetes API server on loopback: it answers requests by a script, each on a connection of its own.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"

enum { DOUBLE_REQUESTS_MAX = 64, DOUBLE_REQUEST_BYTES = 1024 };

struct answer {
	int status;
	const char *body;
	bool is_held; // the connection stays open after the body, until the double ends
};

struct api_server_double {
	const struct answer *answers;
	uint32_t answer_count; // then the last one again
	char url[64];
	int listener;
	int held[DOUBLE_REQUESTS_MAX];
	char requests[DOUBLE_REQUESTS_MAX][DOUBLE_REQUEST_BYTES]; // their first lines
	atomic_uint request_count;
	pthread_t thread;
};

static inline void double_read_request(int fd, char line[DOUBLE_REQUEST_BYTES])
{
	char bytes[8192];
	size_t size = 0;
	ssize_t got;

	while (size < sizeof(bytes) - 1 &&
	       (got = read(fd, bytes + size, sizeof(bytes) - 1 - size)) > 0) {
		size += (size_t)got;
		bytes[size] = '\0';
		if (strstr(bytes, "\r\n\r\n"))
			break;
	}
	bytes[size] = '\0';
	snprintf(line, DOUBLE_REQUEST_BYTES, "%.*s", (int)strcspn(bytes, "\r\n"), bytes);
}

/** The first line of request @number, which has arrived: its count makes the thread's writes visible. */
static inline const char *double_request(struct api_server_double *server, uint32_t number)
{
	assert_in_range(number, 0, atomic_load(&server->request_count) - 1);
	return server->requests[number];
}

static inline void *double_run(void *context)
{
	struct api_server_double *server = context;
	int fd;

	while ((fd = accept(server->listener, NULL, NULL)) >= 0) {
		uint32_t number = atomic_load(&server->request_count) % DOUBLE_REQUESTS_MAX;
		uint32_t last = server->answer_count - 1;
		const struct answer *answer = &server->answers[number < last ? number : last];

		double_read_request(fd, server->requests[number]);
		atomic_fetch_add(&server->request_count, 1); // before its client knows the answer
		dprintf(fd, "HTTP/1.1 %d Scripted\r\nConnection: close\r\n\r\n%s", answer->status,
			answer->body);
		if (answer->is_held)
			server->held[number] = fd;
		else
			close(fd);
	}
	return NULL;
}

static inline void double_open(struct api_server_double *server, const struct answer *answers,
			       uint32_t count)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);

	*server = (struct api_server_double){ .answers = answers, .answer_count = count };
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(0, bind(server->listener, (struct sockaddr *)&address, sizeof(address)));
	assert_int_equal(0, listen(server->listener, 8));
	assert_int_equal(0, getsockname(server->listener, (struct sockaddr *)&address, &size));
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
	assert_int_equal(0, pthread_create(&server->thread, NULL, double_run, server));
}

static inline void double_close(struct api_server_double *server)
{
	shutdown(server->listener, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	close(server->listener);
	for (uint32_t i = 0; i < DOUBLE_REQUESTS_MAX; i++)
		if (server->held[i])
			close(server->held[i]);
}
