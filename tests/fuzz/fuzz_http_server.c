// SPDX-License-Identifier: Apache-2.0
// Any bytes from a client of the real HTTP server: it answers, closes or waits for more; what a handler gets is parsed and bounded,
// and an upload is never longer than announced. The first byte says whether a sound request line comes before the rest.

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "collector/http/http_handlers.h"
#include "collector/http/http_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed);

enum {
	ALL_PARAMETERS = API_SELECTION | API_TYPE | API_MAX_NODES | API_GROUP_BY | API_FORMAT |
			 API_LIMIT | API_STEP | API_SLOT | API_RANGES | API_DIFF,
	UPLOAD_BYTES_MAX = 4096,
	PATIENCE_MS = 3,
};

static const char *const seeds[] = {
	"\1/a?query={service=\"llm\",pod=~\"a.*\"}&from=now-1h&to=now&max_nodes=10&limit=3 "
	"HTTP/1.1\r\n"
	"Host: localhost\r\nAccept-Encoding: gzip\r\nIf-None-Match: \"a\"\r\n\r\n",
	"\1/"
	"slow?type=wall:wall:nanoseconds:wall:nanoseconds&group_by=a,b&step=20ms&slot=1s&format="
	"svg "
	"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer cairn_a.b\r\nCookie: "
	"cairn_token=c\r\n\r\n",
	"\2/u HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nX-Cairn: 1\r\n\r\nhello",
	"\2/u HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
	"chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"\3/api/v1/logout HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
	"Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nConnection: close\r\n\r\n",
};

static void check(bool holds)
{
	if (!holds)
		abort();
}

// In place of the collector's files of symbols, for which no handler asks here.
struct symbol_space *symbol_spaces_get(struct symbol_spaces *spaces, const char *tenant,
				       struct error *err)
{
	(void)spaces, (void)tenant, (void)err;
	return NULL;
}

static bool admit(void *context, struct http_request *request, struct http_response *response)
{
	(void)context, (void)response;
	request->identity = access_local();
	return true;
}

static bool is_slow(void *context, const struct http_request *request)
{
	(void)context;
	return strncmp(request->path, "/slow", 5) == 0;
}

static void check_parsed(const struct api_request *parsed)
{
	check(parsed->range.from_ns < parsed->range.to_ns);
	check(parsed->range.to_ns - parsed->range.from_ns <= QUERY_RANGE_NS_MAX);
	check(parsed->limit >= 1 && parsed->limit <= API_LIMIT_MAX);
	check(parsed->max_nodes >= 1 && parsed->max_nodes <= QUERY_NODES_MAX);
	check(parsed->step_ns && parsed->slot_ns && parsed->type &&
	      parsed->format < EXPORT_FORMATS);
}

static void handle(void *context, const struct http_request *request,
		   struct http_response *response)
{
	struct api_request parsed;
	struct error err = { 0 };
	const char *field;
	struct stat status;

	(void)context;
	check(request->parameter_count <= HTTP_PARAMETERS_MAX && !request->malformed);
	if (request->upload)
		check(!fstat((int)(intptr_t)request->upload, &status) &&
		      (uint64_t)status.st_size <= request->body_bytes);
	response->etag = "\"a\"";
	response->media_type = "text/plain";
	if (api_request_parse(request, ALL_PARAMETERS, &parsed, &field, &err)) {
		check(field && err.code && strlen(err.text) < sizeof(err.text));
		http_respond_failure(response, &err, field);
		return;
	}
	check_parsed(&parsed);
	api_request_deinit(&parsed);
	for (uint32_t i = 0; i < HTTP_COMPRESS_BYTES_MIN; i++)
		buffer_append_byte(&response->body, 'a');
}

static int begin_upload(void *context, struct http_request *request, struct http_response *response)
{
	(void)context;
	if (request->body_bytes > UPLOAD_BYTES_MAX) {
		http_respond_error(response, 413, "too_large", "", "too large");
		return -1;
	}
	int fd = memfd_create("upload", MFD_CLOEXEC);
	check(fd >= 0);
	request->upload = (void *)(intptr_t)fd;
	return fd;
}

static void end_upload(void *context, struct http_request *request)
{
	(void)context;
	close((int)(intptr_t)request->upload);
}

static uint16_t open_server(void)
{
	static struct http_guard guard;
	static struct byte_budget answers = { .bytes_max = 1 << 20 };
	struct http_server *server;
	struct error err;
	int port;

	check(http_guard_init(&guard, "127.0.0.1:0", "localhost", NULL) == 0);
	const struct http_server_options options = {
		.address = "127.0.0.1:0",
		.threads = 1,
		.answers = &answers,
		.guard = &guard,
		.admit = admit,
		.is_slow = is_slow,
		.handle = handle,
		.begin_upload = begin_upload,
		.end_upload = end_upload,
	};
	check(http_server_open(&options, &server, &port, &err) == 0);
	return (uint16_t)port;
}

static int connect_to(uint16_t port)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons(port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	// Closed without waiting for late packets: there are thousands of connections a second.
	const struct linger linger = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0 && !connect(fd, (const struct sockaddr *)&address, sizeof(address)));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

// Until the server closes, or waits for more.
static void read_all(int fd)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	char answer[4096];
	bool is_first = true;
	ssize_t size;

	while (poll(&readable, 1, PATIENCE_MS) > 0 &&
	       (size = recv(fd, answer, sizeof(answer), 0)) > 0) {
		check(!is_first || size < 5 || memcmp(answer, "HTTP/", 5) == 0);
		is_first = false;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const methods[] = { NULL, "GET ", "PUT ", "POST " };
	static uint16_t port;

	if (!size)
		return 0;
	if (!port)
		port = open_server();
	const char *method = methods[bytes[0] % 4];
	int fd = connect_to(port);

	if (method)
		send(fd, method, strlen(method), MSG_NOSIGNAL | MSG_MORE);
	send(fd, bytes + 1, size - 1, MSG_NOSIGNAL);
	read_all(fd);
	close(fd);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t size_max, unsigned int seed)
{
	if (size < 8) { // good requests, which a fuzzer would hardly find
		const char *good = seeds[seed % (sizeof(seeds) / sizeof(*seeds))];

		size = strlen(good) <= size_max ? strlen(good) : 0;
		memcpy(bytes, good, size);
	}
	return LLVMFuzzerMutate(bytes, size, size_max);
}
