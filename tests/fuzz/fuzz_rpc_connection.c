// SPDX-License-Identifier: Apache-2.0
// Any bytes from a client: the connection ends or goes on, whole messages are handled, and all memory is
// given back.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/rpc_connection.h"
#include "proto/rpc_deadlines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PART_BYTES = 1000, MESSAGE_MAX = 1 << 16 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

// HEADERS of stream 1: a call of "/a", whose message may be compressed.
static const char headers[] = "\0\0\x4d\1\4\0\0\0\1"
			      "\x83\x86" // :method POST, :scheme http
			      "\0\5:path\2/a"
			      "\0\12:authority\1t"
			      "\0\14content-type\20application/grpc"
			      "\0\15grpc-encoding\4gzip";

static enum rpc_status never(void *context, const struct rpc_request *request,
			     struct buffer *response, struct error *err)
{
	(void)context, (void)request, (void)response, (void)err;
	return RPC_OK;
}

static const struct rpc_method method = { .name = "/a", .handle = never, .work_per_byte = 2 };

static void check(bool condition)
{
	if (!condition)
		abort();
}

// What the server's threads and loop do with a message.
static void handle_queued(struct rpc_service *service)
{
	while (service->queue.first) {
		struct rpc_call *call = rpc_queue_pop(&service->queue);
		enum rpc_status status = rpc_call_inflate(call);

		check(status != RPC_OK || call->message.size <= MESSAGE_MAX);
		buffer_append(&call->response, call->message.bytes, call->message.size);
		service->call_count--;
		rpc_connection_answer(call->connection, call, status);
	}
}

static void drain(int fd)
{
	char bytes[4096];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

// As bytes of the connection, or as the message of a call.
static bool send_part(int fd, const uint8_t *bytes, size_t size, bool is_message, bool is_last)
{
	const uint8_t frame[9] = { 0, (uint8_t)(size >> 8), (uint8_t)size, 0, is_last, 0, 0, 0, 1 };

	if (is_message && send(fd, frame, sizeof(frame), MSG_NOSIGNAL) < 0)
		return false;
	return send(fd, bytes, size, MSG_NOSIGNAL) >= 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct byte_budget budget = { .bytes_max = 1 << 20 };
	static struct rpc_service service;
	int ends[2];

	if (!size || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends))
		return 0;
	service = (struct rpc_service){
		.limits = { .connections_max = 1,
			    .streams_per_connection_max = 8,
			    .queued_per_peer_max = 4,
			    .handshake_ms = 1000,
			    .message_ms = 1000,
			    .queue_ms = 1000,
			    .answer_ms = 1000,
			    .idle_ms = 1000,
			    .quiet_ms = 1000,
			    .ping_ms = 1000,
			    .age_ms = 1000 },
		.message_bytes_max = MESSAGE_MAX,
		.methods = &method,
		.method_count = 1,
		.budget = &budget,
	};
	rpc_queue_init(&service.queue, &budget);
	struct rpc_connection *connection = rpc_connection_new(
		&service, rpc_queue_find_peer(&service.queue, "fuzz"), NULL, ends[0]);
	check(connection);

	// The first byte: with a preface, are messages handled in between, and is the rest a message?
	bool handles = bytes[0] & 2, is_message = bytes[0] & 4;
	if (bytes[0] & 5)
		check(send(ends[1], preface, sizeof(preface) - 1, 0) > 0);
	if (is_message)
		check(send(ends[1], headers, sizeof(headers) - 1, 0) > 0);
	for (size_t at = 1; at < size && !rpc_connection_has_ended(connection);) {
		size_t part = size - at < PART_BYTES ? size - at : PART_BYTES;

		if (!send_part(ends[1], bytes + at, part, is_message, at + part == size))
			break;
		at += part;
		rpc_connection_read(connection);
		if (handles)
			handle_queued(&service);
		rpc_deadlines_check(connection, clock_monotonic_ns());
		drain(ends[1]);
	}
	rpc_deadlines_check(connection, clock_monotonic_ns() + 3600 * NS_PER_SECOND);
	handle_queued(&service);
	rpc_connection_free(connection);
	check(!service.call_count && !service.queue.first);
	check(!atomic_load(&budget.bytes_taken));
	rpc_queue_deinit(&service.queue);
	close(ends[1]);
	return 0;
}
