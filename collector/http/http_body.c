// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_body.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { PUSH_AGAIN_S = 5 }; // once the memory for messages is in use

bool http_body_begin_put(struct http_body *body, const char *length, struct http_response *response)
{
	char *end = NULL;

	body->fd = -1;
	body->bytes_max = length ? strtoull(length, &end, 10) : 0;
	if (length && *length && !*end)
		return true;
	http_respond_error(response, 411, "length_required", "", "a PUT needs Content-Length");
	return false;
}

static bool is_encoding_read(const char *encoding)
{
	return !encoding || !*encoding || strcasecmp(encoding, "gzip") == 0 ||
	       strcasecmp(encoding, "identity") == 0;
}

bool http_body_begin_push(struct http_body *body, const char *length, const char *encoding,
			  size_t bytes_max, struct byte_budget *budget,
			  struct http_response *response)
{
	body->fd = -1;
	body->bytes_max = length ? strtoull(length, NULL, 10) : bytes_max;
	body->memory.size_max = bytes_max;
	body->memory.budget = budget;
	if (body->bytes_max > bytes_max)
		http_respond_error(response, 413, "too_large", "", "the body is too large");
	else if (!is_encoding_read(encoding))
		http_respond_error(response, 415, "unsupported_encoding", "",
				   "Content-Encoding: only gzip and identity are read");
	else
		return true;
	return false;
}

static bool write_file(struct http_body *body, const uint8_t *bytes, size_t size)
{
	while (size && body->written < body->bytes_max) {
		ssize_t count = write(body->fd, bytes, size);

		if (count < 0 && errno != EINTR)
			return false;
		bytes += count < 0 ? 0 : count;
		size -= count < 0 ? 0 : (size_t)count;
		body->written += count < 0 ? 0 : (uint64_t)count;
	}
	return size == 0;
}

bool http_body_receive(struct http_body *body, const void *bytes, size_t size)
{
	if (body->fd >= 0)
		return write_file(body, bytes, size);
	buffer_append(&body->memory, bytes, size);
	if (body->memory.rc) {
		int rc = body->memory.rc;

		buffer_deinit(&body->memory);
		body->memory.rc = rc;
	}
	return true;
}

bool http_body_end(const struct http_body *body, struct http_response *response)
{
	switch (body->memory.rc) {
	case 0:
		return true;
	case -EFBIG:
		http_respond_error(response, 413, "too_large", "", "the body is too large");
		return false;
	default:
		http_respond_error(response, 503, "overloaded", "",
				   "the memory for messages is in use; push again");
		response->retry_after_s = PUSH_AGAIN_S;
		return false;
	}
}

void http_body_deinit(struct http_body *body)
{
	buffer_deinit(&body->memory);
}
