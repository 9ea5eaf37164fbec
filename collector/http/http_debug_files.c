// SPDX-License-Identifier: Apache-2.0
// Debug files: uploads, and their list.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"

static bool is_build_id(const char *text)
{
	size_t size = strlen(text);

	return size >= 4 && size % 2 == 0 && size <= 2 * DEBUG_CACHE_ID_BYTES_MAX &&
	       strspn(text, "0123456789abcdef") == size;
}

void http_respond_upload_failure(struct http_response *response, const struct error *err,
				 const char *field)
{
	switch (err->code) {
	case -EEXIST:
		http_respond_error(response, 409, "already_exists", field, err->text);
		break;
	case -EAGAIN:
		http_respond_error(response, 503, "overloaded", "", err->text);
		response->retry_after_s = 5;
		break;
	case -ENOTCONN:
		http_respond_error(response, 503, "unavailable", "", err->text);
		break;
	default:
		http_respond_failure(response, err, field);
		break;
	}
}

int http_begin_debug_file(struct http_api *api, struct http_request *upload, const char *build_id,
			  struct http_response *response)
{
	struct error err = { 0 };
	struct symbol_space *symbols = api_symbols(api, upload, &err);
	_cleanup_free_ struct debug_upload *received = malloc(sizeof(*received));

	if (!symbols) {
		http_respond_failure(response, &err, "");
		return -1;
	}
	if (!is_build_id(build_id)) {
		http_respond_error(response, 400, "invalid_argument", "build_id",
				   "expected a GNU build id in lower-case hexadecimal");
		return -1;
	}
	int rc = received ? debug_files_begin(&symbols->files, upload->body_bytes, received, &err)
			  : error_set(&err, -ENOMEM, "out of memory");
	if (rc) {
		http_respond_upload_failure(response, &err, "build_id");
		return -1;
	}
	int fd = received->file.fd;
	upload->upload = take(received);
	return fd;
}

void http_end_debug_file(struct http_api *api, struct http_request *upload)
{
	struct symbol_space *symbols = upload->upload ? api_symbols(api, upload, NULL) : NULL;

	if (!symbols)
		return;
	debug_files_drop(&symbols->files, upload->upload);
	free(upload->upload);
	upload->upload = NULL;
}

void http_handle_debug_file(struct http_api *api, const struct api_request *request,
			    const struct http_request *upload, struct http_response *response)
{
	struct error err = { 0 };
	struct symbol_space *symbols = api_symbols(api, upload, &err);
	const char *address = upload->credentials.address;
	int rc = symbols ? debug_files_keep(&symbols->files, upload->upload, request->label,
					    upload->identity.key, address ? address : "", &err)
			 : err.code;

	if (rc) {
		http_respond_upload_failure(response, &err, "build_id");
		return;
	}
	response->status = 201;
	buffer_append_string(&response->body, "{\"build_id\":");
	json_append_string(&response->body, request->label);
	buffer_append_string(&response->body, ",\"bytes\":");
	json_append_uint(&response->body, upload->body_bytes);
	buffer_append_string(&response->body, "}\n");
}

void http_handle_debug_file_deletion(struct http_api *api, const struct api_request *request,
				     const struct http_request *deletion,
				     struct http_response *response)
{
	struct error err = { 0 };
	struct symbol_space *symbols = api_symbols(api, deletion, &err);
	int rc = symbols ? debug_files_remove(&symbols->files, request->label) : -ENOENT;

	if (!rc)
		symbolizer_clear_cache(symbols->symbolizer);
	if (rc == -ENOENT || rc == -EINVAL)
		http_respond_error(response, 404, "not_found", "build_id",
				   "there is no such debug file in this tenant");
	else if (rc) {
		error_errno(&err, rc, "debug files: delete %s", request->label);
		http_respond_failure(response, &err, "");
	} else
		buffer_append_string(&response->body, "{}\n");
}

struct listing {
	const struct debug_files *files;
	struct buffer *body;
	uint64_t bytes;
	uint32_t count;
};

void http_append_origin(struct buffer *body, const struct debug_origin *origin)
{
	buffer_append_string(body, ",\"uploaded\":");
	json_append_uint(body, origin->uploaded_s);
	buffer_append_string(body, ",\"who\":");
	json_append_string(body, origin->who);
	buffer_append_string(body, ",\"address\":");
	json_append_string(body, origin->address);
	buffer_append_string(body, ",\"sha256\":\"");
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		buffer_printf(body, "%02x", origin->digest[i]);
	buffer_append_byte(body, '"');
}

static int append_file(void *context, const char *build_id, uint64_t bytes, uint64_t used_s)
{
	struct listing *listing = context;
	struct debug_origin origin;
	bool has_origin = debug_files_origin(listing->files, build_id, &origin) == 0;

	buffer_append_string(listing->body,
			     listing->count++ ? ",{\"build_id\":" : "{\"build_id\":");
	json_append_string(listing->body, build_id);
	buffer_append_string(listing->body, ",\"bytes\":");
	json_append_uint(listing->body, has_origin ? origin.bytes : bytes);
	buffer_append_string(listing->body, ",\"used\":");
	json_append_uint(listing->body, used_s);
	if (has_origin)
		http_append_origin(listing->body, &origin);
	buffer_append_byte(listing->body, '}');
	listing->bytes += bytes;
	return 0;
}

void http_handle_debug_files(struct http_api *api, const struct api_request *request,
			     struct http_response *response)
{
	struct symbol_space *symbols = api_symbols(api, request->http, NULL);
	struct listing listing = { .files = symbols ? &symbols->files : NULL,
				   .body = &response->body };

	buffer_append_string(listing.body, "{\"files\":[");
	int rc = symbols ? debug_cache_list(&symbols->files.cache, append_file, &listing) : 0;
	if (rc) {
		struct error err = { 0 };

		error_errno(&err, rc, "debug files");
		http_respond_failure(response, &err, "");
		return;
	}
	buffer_append_string(listing.body, "],\"bytes\":");
	json_append_uint(listing.body, listing.bytes);
	buffer_append_string(listing.body, ",\"bytes_max\":");
	json_append_uint(listing.body, symbols ? symbols->files.cache.bytes_max : 0);
	buffer_append_string(listing.body, "}\n");
}
