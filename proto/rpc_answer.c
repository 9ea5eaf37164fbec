// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_answer.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/retry_info.h"

enum { STATUS_TEXT_BYTES = 3 * ERROR_TEXT_BYTES };

#define HEADER(text, content)                                                           \
	(nghttp2_nv)                                                                    \
	{                                                                               \
		(uint8_t *)(text), (uint8_t *)(content), strlen(text), strlen(content), \
			NGHTTP2_NV_FLAG_NONE                                            \
	}

// As the gRPC protocol encodes grpc-message.
static void percent_encode(const char *text, char encoded[STATUS_TEXT_BYTES])
{
	static const char digits[] = "0123456789ABCDEF";
	char *at = encoded;

	for (; *text; text++) {
		uint8_t byte = (uint8_t)*text;

		if (byte >= ' ' && byte <= '~' && byte != '%') {
			*at++ = (char)byte;
			continue;
		}
		*at++ = '%';
		*at++ = digits[byte >> 4];
		*at++ = digits[byte & 15];
	}
	*at = 0;
}

static ssize_t read_answer(nghttp2_session *session, int32_t stream, uint8_t *bytes, size_t size,
			   uint32_t *flags, nghttp2_data_source *source, void *context)
{
	struct rpc_call *call = source->ptr;
	const nghttp2_nv trailer = HEADER("grpc-status", "0");
	size_t total = RPC_PREFIX_BYTES + call->response.size, count = 0;
	uint32_t message_size = (uint32_t)call->response.size;
	const uint8_t prefix[RPC_PREFIX_BYTES] = { 0, (uint8_t)(message_size >> 24),
						   (uint8_t)(message_size >> 16),
						   (uint8_t)(message_size >> 8),
						   (uint8_t)message_size };

	(void)context;
	while (call->sent < RPC_PREFIX_BYTES && count < size)
		bytes[count++] = prefix[call->sent++];
	if (call->sent >= RPC_PREFIX_BYTES && count < size) {
		size_t left = total - call->sent;

		left = left < size - count ? left : size - count;
		if (left)
			memcpy(bytes + count, call->response.bytes + call->sent - RPC_PREFIX_BYTES,
			       left);
		call->sent += left;
		count += left;
	}
	if (call->sent == total) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, stream, &trailer, 1))
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	return (ssize_t)count;
}

static int submit_success(nghttp2_session *session, struct rpc_call *call)
{
	const nghttp2_nv headers[] = { HEADER(":status", "200"),
				       HEADER("content-type", "application/grpc") };
	const nghttp2_data_provider provider = { .source.ptr = call, .read_callback = read_answer };

	return nghttp2_submit_response(session, call->stream, headers, ARRAY_SIZE(headers),
				       &provider);
}

static int submit_failure(nghttp2_session *session, struct rpc_call *call)
{
	char number[16], text[STATUS_TEXT_BYTES], pause[RETRY_INFO_TEXT_BYTES] = "";

	if (call->pause_ms)
		retry_info_encode((int)call->status, call->pause_ms, pause);
	snprintf(number, sizeof(number), "%d", (int)call->status);
	percent_encode(call->err.text, text);
	const nghttp2_nv headers[] = {
		HEADER(":status", call->is_grpc ? "200" : "415"),
		HEADER("content-type", "application/grpc"),
		HEADER("grpc-status", number),
		HEADER("grpc-message", text),
		HEADER("grpc-accept-encoding", "identity,gzip"),
		HEADER(RPC_ANSWERED_HEADER, "1"),
		// The last two only where they say something.
		HEADER(RPC_LIMIT_HEADER, rpc_limit_name(call->err.code)),
		HEADER("grpc-status-details-bin", pause),
	};
	bool is_limit = call->status == RPC_RESOURCE_EXHAUSTED;
	size_t count = ARRAY_SIZE(headers) - (is_limit ? !*pause : 2);

	return nghttp2_submit_response(session, call->stream, headers, count, NULL);
}

int rpc_answer_submit(nghttp2_session *session, struct rpc_call *call)
{
	return call->status == RPC_OK ? submit_success(session, call)
				      : submit_failure(session, call);
}
