// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
	GZIP_BYTES_MIN = 18, // header, an empty block, check sum and size
	GZIP_WINDOW_BITS = 15 + 16,
	// A message that inflates so much more than its size is no agent's. Small ones harm nobody.
	INFLATE_RATIO_MAX = 200,
	INFLATE_FREE_BYTES = 4 << 20,
	TIMEOUT_DIGITS_MAX = 8,   // the gRPC protocol's limit
	DEFLATE_RATIO_MAX = 1032, // nothing that is whole inflates to more
	CALL_BYTES = 4096,        // of the struct, its headers, and nghttp2's stream
};

struct rpc_call *rpc_call_new(struct rpc_peer *peer, struct byte_budget *budget)
{
	if (!byte_budget_take(budget, CALL_BYTES))
		return NULL;

	struct rpc_call *call = calloc(1, sizeof(*call));
	if (!call) {
		byte_budget_give(budget, CALL_BYTES);
		return NULL;
	}
	call->peer = peer;
	call->budget = budget;
	call->since_ns = clock_monotonic_ns();
	call->message.budget = budget;
	call->response.budget = budget;
	return call;
}

void rpc_call_drop_message(struct rpc_call *call)
{
	buffer_deinit(&call->message);
	byte_budget_give(call->budget, call->work_bytes);
	call->work_bytes = 0;
}

void rpc_call_free(struct rpc_call *call)
{
	rpc_call_drop_message(call);
	buffer_deinit(&call->response);
	byte_budget_give(call->budget, CALL_BYTES);
	free(call->authorization);
	free(call->caller);
	free(call);
}

// "10S", "500m": digits and a unit.
static uint64_t timeout_ns(const char *value)
{
	static const struct {
		char unit;
		uint64_t ns;
	} units[] = {
		{ 'H', 3600 * NS_PER_SECOND },
		{ 'M', 60 * NS_PER_SECOND },
		{ 'S', NS_PER_SECOND },
		{ 'm', NS_PER_MS },
		{ 'u', NS_PER_US },
		{ 'n', 1 },
	};
	size_t digits = strspn(value, "0123456789");

	if (!digits || digits > TIMEOUT_DIGITS_MAX)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (value[digits] == units[i].unit && !value[digits + 1])
			return strtoull(value, NULL, 10) * units[i].ns;
	return 0;
}

void rpc_call_add_header(struct rpc_call *call, const char *name, const char *value,
			 size_t value_size)
{
	if (!strcmp(name, ":path")) {
		// One that is cut is no method's name.
		snprintf(call->method_name, sizeof(call->method_name), "%s", value);
	} else if (!strcmp(name, "content-type")) {
		call->is_grpc = !strncmp(value, "application/grpc", 16);
	} else if (!strcmp(name, "grpc-encoding")) {
		call->has_other_encoding = strcmp(value, "gzip") != 0;
	} else if (!strcmp(name, "grpc-timeout")) {
		uint64_t ns = timeout_ns(value);

		call->deadline_ns = ns ? call->since_ns + ns : 0;
	} else if (!strcmp(name, "authorization") && !call->authorization) {
		// One that is too long is there, and is refused.
		call->authorization =
			strdup(value_size <= RPC_AUTHORIZATION_BYTES_MAX ? value : "");
	}
}

static size_t announced_size(const struct rpc_call *call)
{
	const uint8_t *size = call->prefix + 1;

	return (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
}

static enum rpc_status refuse_size(struct rpc_call *call, size_t size, size_t size_max)
{
	error_set(&call->err, -EMSGSIZE, "the message of %zu bytes is larger than %zu bytes", size,
		  size_max);
	return RPC_RESOURCE_EXHAUSTED;
}

static enum rpc_status refuse_budget(struct rpc_call *call)
{
	error_set(&call->err, -EDQUOT,
		  "the collector is overloaded: the memory for messages is taken (limit %zu "
		  "bytes)",
		  call->budget ? call->budget->bytes_max : 0);
	return RPC_RESOURCE_EXHAUSTED;
}

enum rpc_status rpc_call_add_bytes(struct rpc_call *call, const uint8_t *bytes, size_t size,
				   size_t message_bytes_max)
{
	while (size && call->prefix_size < RPC_PREFIX_BYTES) {
		call->prefix[call->prefix_size++] = *bytes++;
		size--;
		if (call->prefix_size < RPC_PREFIX_BYTES)
			continue;
		if (announced_size(call) > message_bytes_max)
			return refuse_size(call, announced_size(call), message_bytes_max);
		call->message.size_max = announced_size(call) + 1;
	}
	if (!size)
		return RPC_OK;
	if (size > announced_size(call) - call->message.size) {
		error_set(&call->err, -EBADMSG, "the call carries more than one message");
		return RPC_INVALID_ARGUMENT;
	}
	buffer_append(&call->message, bytes, size);
	return call->message.rc ? refuse_budget(call) : RPC_OK;
}

// A gzip member ends with its size, which inflating must come to.
static size_t gzip_size(const struct buffer *message)
{
	const uint8_t *size = message->bytes + message->size - 4;

	return (size_t)size[3] << 24 | (size_t)size[2] << 16 | (size_t)size[1] << 8 | size[0];
}

static enum rpc_status refuse_damaged(struct rpc_call *call)
{
	error_set(&call->err, -EBADMSG, "the message's compressed data are damaged");
	return RPC_INVALID_ARGUMENT;
}

static enum rpc_status check_compression(struct rpc_call *call, size_t message_bytes_max)
{
	if (call->has_other_encoding) {
		error_set(&call->err, -EOPNOTSUPP,
			  "the message is compressed by another method than gzip");
		return RPC_UNIMPLEMENTED;
	}
	if (call->message.size < GZIP_BYTES_MIN)
		return refuse_damaged(call);

	call->inflated_size = gzip_size(&call->message);
	if (call->inflated_size / DEFLATE_RATIO_MAX > call->message.size)
		return refuse_damaged(call);
	if (call->inflated_size > message_bytes_max) {
		error_set(&call->err, -EMSGSIZE, "the message inflates to more than %zu bytes",
			  message_bytes_max);
		return RPC_RESOURCE_EXHAUSTED;
	}
	if (call->inflated_size > INFLATE_FREE_BYTES &&
	    call->inflated_size / INFLATE_RATIO_MAX > call->message.size) {
		error_set(&call->err, -EMSGSIZE,
			  "the message of %zu bytes inflates to %zu: more than %d times its size",
			  call->message.size, call->inflated_size, INFLATE_RATIO_MAX);
		return RPC_INVALID_ARGUMENT;
	}
	return RPC_OK;
}

enum rpc_status rpc_call_complete(struct rpc_call *call, size_t message_bytes_max)
{
	if (!call->prefix_size) {
		error_set(&call->err, -EBADMSG, "the call carries no message");
		return RPC_INVALID_ARGUMENT;
	}
	if (call->prefix_size < RPC_PREFIX_BYTES || call->message.size < announced_size(call)) {
		error_set(&call->err, -EBADMSG, "the call's message is cut");
		return RPC_INVALID_ARGUMENT;
	}

	bool compressed = call->prefix[0] & 1;
	call->inflated_size = call->message.size;
	if (compressed) {
		enum rpc_status status = check_compression(call, message_bytes_max);

		if (status != RPC_OK)
			return status;
	}
	// Taken when a thread is free for it.
	call->work_bytes = 0;
	size_t work = rpc_call_work(call);
	if (call->budget && work > call->budget->bytes_max - call->budget->bytes_max / 16) {
		error_set(
			&call->err, -EMSGSIZE,
			"the message of %zu bytes takes %zu bytes of memory, and the collector has "
			"%zu: give it more by --memory, or let agents export more often",
			call->inflated_size, work, call->budget->bytes_max);
		return RPC_RESOURCE_EXHAUSTED;
	}
	return RPC_OK;
}

size_t rpc_call_work(const struct rpc_call *call)
{
	size_t inflated = call->prefix[0] & 1 ? call->inflated_size + 1 : 0;

	return inflated + call->method->work_per_byte * call->inflated_size;
}

enum rpc_status rpc_call_inflate(struct rpc_call *call)
{
	_cleanup_(buffer_deinit) struct buffer inflated = { .size_max = call->inflated_size + 1 };
	z_stream stream = { .next_in = call->message.bytes, .avail_in = (uInt)call->message.size };

	if (!(call->prefix[0] & 1))
		return RPC_OK;

	// One byte more than it says shows a lie; the memory was taken with the work.
	stream.next_out = buffer_extend(&inflated, call->inflated_size + 1);
	stream.avail_out = (uInt)call->inflated_size + 1;
	if (!stream.next_out || inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK) {
		error_set(&call->err, -ENOMEM, "out of memory for the message");
		return RPC_RESOURCE_EXHAUSTED;
	}
	int rc = inflate(&stream, Z_FINISH);
	bool whole =
		rc == Z_STREAM_END && !stream.avail_in && stream.total_out == call->inflated_size;
	inflateEnd(&stream);
	if (!whole)
		return refuse_damaged(call);

	buffer_deinit(&call->message);
	inflated.size = call->inflated_size;
	call->message = inflated; // its memory is part of the work's
	inflated = (struct buffer){ 0 };
	return RPC_OK;
}
