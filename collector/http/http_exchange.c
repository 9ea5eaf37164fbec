// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zlib.h>

#include "base/json_text.h"
#include "collector/limits/tenant_limits.h"

enum {
	GZIP_WINDOW_BITS = 15 + 16, // 16: a gzip header, not zlib's
	GZIP_MEMORY_LEVEL = 9,
	GZIP_LEVEL = 4,
	GZIP_LEVEL_LARGE = 1,
	GZIP_LARGE_BYTES = 1 << 20, // from here on speed matters more than the last 10 %
};

void http_response_deinit(struct http_response *response)
{
	buffer_deinit(&response->body);
	if (response->set_cookie)
		explicit_bzero(response->set_cookie, strlen(response->set_cookie));
	free(response->set_cookie);
	response->set_cookie = NULL;
}

void http_respond_error(struct http_response *response, int status, const char *code,
			const char *field, const char *message)
{
	struct buffer *body = &response->body;

	buffer_clear(body);
	response->fixed_body = NULL;
	response->etag = NULL;
	response->disposition = NULL;
	response->status = status;
	response->media_type = "application/json";
	buffer_append_string(body, "{\"error\":{\"code\":");
	json_append_string(body, code);
	buffer_append_string(body, ",\"field\":");
	json_append_string(body, field);
	buffer_append_string(body, ",\"message\":");
	json_append_string(body, message);
	buffer_append_string(body, "}}\n");
}

void http_respond_busy(struct http_response *response)
{
	// The error itself is small, and must be reported.
	buffer_deinit(&response->body);
	response->body.budget = NULL;
	http_respond_error(response, 503, "overloaded", "",
			   "the memory for queries (a quarter of the collector's --memory) is in "
			   "use; try again in a moment, ask for less, or raise --memory");
	response->retry_after_s = 5;
}

void http_respond_no_memory(struct http_response *response, const struct error *err)
{
	http_respond_busy(response);
	if (err->code == -EDQUOT)
		return;
	if (err->code == TENANT_LATER || err->code == TENANT_NEVER) {
		response->retry_after_s = 0;
		http_respond_failure(response, err, "");
		return;
	}
	http_respond_error(response, 413, "too_large", "", err->text);
	response->retry_after_s = 0;
}

void http_respond_failure(struct http_response *response, const struct error *err,
			  const char *field)
{
	switch (err->code) {
	case -EINVAL:
		http_respond_error(response, 400, "invalid_argument", field, err->text);
		break;
	case -E2BIG:
	case -EFBIG:
		http_respond_error(response, 413, "too_large", field, err->text);
		break;
	case -ETIMEDOUT:
		http_respond_error(response, 413, "deadline_exceeded", field, err->text);
		break;
	case -EDQUOT:
		http_respond_busy(response);
		break;
	case TENANT_LATER:
		http_respond_error(response, 429, "limit_exceeded", field, err->text);
		response->retry_after_s = 5;
		break;
	case TENANT_NEVER:
		http_respond_error(response, 422, "limit_exceeded", field, err->text);
		break;
	case -ECANCELED: // nobody reads it, but the metrics count it
		http_respond_error(response, HTTP_CLIENT_GONE, "client_gone", field, err->text);
		break;
	case -ENOMEM:
		http_respond_error(response, 503, "out_of_memory", "", err->text);
		response->retry_after_s = 5;
		break;
	default:
		http_respond_error(response, 500, "internal", "", err->text);
		break;
	}
}

const char *http_parameter(const struct http_request *request, const char *name)
{
	for (uint32_t i = 0; i < request->parameter_count; i++) {
		if (strcmp(request->parameters[i].name, name) == 0)
			return request->parameters[i].value;
	}
	return "";
}

static int gzip_bytes(const struct buffer *plain, struct buffer *packed)
{
	int level = plain->size >= GZIP_LARGE_BYTES ? GZIP_LEVEL_LARGE : GZIP_LEVEL;
	z_stream stream = { 0 };

	if (deflateInit2(&stream, level, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;

	// Bodies are below HTTP_BODY_BYTES_MAX, so the sizes fit zlib's 32 bits.
	uLong bound = deflateBound(&stream, plain->size);
	void *room = buffer_extend(packed, bound);
	int rc = -ENOMEM;
	if (room) {
		stream.next_in = plain->bytes;
		stream.avail_in = (uInt)plain->size;
		stream.next_out = room;
		stream.avail_out = (uInt)bound;
		rc = deflate(&stream, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
		packed->size = stream.total_out;
	}
	deflateEnd(&stream);
	return rc;
}

void http_compress(const struct http_request *request, struct http_response *response)
{
	struct buffer packed = { .budget = response->body.budget };

	if (response->fixed_body || response->is_gzip || response->body.rc ||
	    response->body.size < HTTP_COMPRESS_BYTES_MIN)
		return;
	response->varies = true;
	if (!request->accepts_gzip)
		return;
	if (gzip_bytes(&response->body, &packed)) {
		buffer_deinit(&packed);
		return;
	}
	buffer_deinit(&response->body);
	response->body = packed;
	response->is_gzip = true;
}

/** The next element of a comma-separated header, without blanks around it; NULL at the end. */
static const char *next_element(const char **at, size_t *ret_size)
{
	*at += strspn(*at, ", \t");
	if (!**at)
		return NULL;

	const char *element = *at;
	size_t size = strcspn(element, ",");

	*at += size;
	while (size && (element[size - 1] == ' ' || element[size - 1] == '\t'))
		size--;
	*ret_size = size;
	return element;
}

bool http_etag_matches(const char *if_none_match, const char *etag)
{
	const char *element;
	size_t size;

	while ((element = next_element(&if_none_match, &size))) {
		if (size == 1 && *element == '*')
			return true;
		if (size > 2 && strncmp(element, "W/", 2) == 0) {
			element += 2;
			size -= 2;
		}
		if (size == strlen(etag) && memcmp(element, etag, size) == 0)
			return true;
	}
	return false;
}

/** "gzip;q=0" and "gzip; q=0.000" refuse it. */
static bool has_quality_zero(const char *parameters, size_t size)
{
	const char *q = memchr(parameters, 'q', size);

	if (!q || (size_t)(q - parameters) + 2 >= size || q[1] != '=')
		return false;
	for (q += 2; q < parameters + size; q++) {
		if (*q >= '1' && *q <= '9')
			return false;
	}
	return true;
}

bool http_accepts_gzip(const char *accept_encoding)
{
	const char *element;
	size_t size;

	while (accept_encoding && (element = next_element(&accept_encoding, &size))) {
		size_t name = strcspn(element, ";, \t");

		if (name > size)
			name = size;
		if ((name == 4 && strncasecmp(element, "gzip", 4) == 0) ||
		    (name == 1 && *element == '*'))
			return !has_quality_zero(element + name, size - name);
	}
	return false;
}
