// SPDX-License-Identifier: Apache-2.0
// Source files: uploads of archives, and their list.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"

static bool is_id(const char *text)
{
	return strlen(text) == 2UL * DIGEST_BYTES &&
	       strspn(text, "0123456789abcdef") == 2UL * DIGEST_BYTES;
}

int http_begin_sources(struct http_api *api, struct http_request *upload, const char *id,
		       struct http_response *response)
{
	struct error err = { 0 };
	struct symbol_space *space = api_symbols(api, upload, &err);
	_cleanup_free_ struct source_upload *received = malloc(sizeof(*received));

	if (!space) {
		http_respond_failure(response, &err, "");
		return -1;
	}
	if (!is_id(id)) {
		http_respond_error(response, 400, "invalid_argument", "id",
				   "expected the SHA-256 of the archive in lower-case hexadecimal");
		return -1;
	}
	int rc = received ? source_files_begin(&space->sources, upload->body_bytes, received, &err)
			  : error_set(&err, -ENOMEM, "out of memory");
	if (rc) {
		http_respond_upload_failure(response, &err, "id");
		return -1;
	}
	int fd = received->file.fd;
	upload->upload = take(received);
	return fd;
}

void http_end_sources(struct http_api *api, struct http_request *upload)
{
	struct symbol_space *space = upload->upload ? api_symbols(api, upload, NULL) : NULL;

	if (!space)
		return;
	source_files_drop(&space->sources, upload->upload);
	free(upload->upload);
	upload->upload = NULL;
}

void http_handle_sources(struct http_api *api, const struct api_request *request,
			 const struct http_request *upload, struct http_response *response)
{
	struct error err = { 0 };
	struct symbol_space *space = api_symbols(api, upload, &err);
	const char *address = upload->credentials.address;
	int rc = space ? source_files_keep(&space->sources, upload->upload, request->label,
					   upload->identity.key, address ? address : "", &err)
		       : err.code;

	if (rc) {
		http_respond_upload_failure(response, &err, "id");
		return;
	}
	response->status = 201;
	buffer_append_string(&response->body, "{\"id\":");
	json_append_string(&response->body, request->label);
	buffer_append_string(&response->body, ",\"bytes\":");
	json_append_uint(&response->body, upload->body_bytes);
	buffer_append_string(&response->body, "}\n");
}

void http_handle_sources_deletion(struct http_api *api, const struct api_request *request,
				  const struct http_request *deletion,
				  struct http_response *response)
{
	struct error err = { 0 };
	struct symbol_space *space = api_symbols(api, deletion, &err);
	int rc = space ? source_files_remove(&space->sources, request->label) : -ENOENT;

	if (rc == -ENOENT || rc == -EINVAL)
		http_respond_error(response, 404, "not_found", "id",
				   "there are no such sources in this tenant");
	else if (rc) {
		error_errno(&err, rc, "sources: delete %s", request->label);
		http_respond_failure(response, &err, "");
	} else
		buffer_append_string(&response->body, "{}\n");
}

struct listing {
	struct buffer *body;
	uint64_t bytes;
	uint32_t count;
};

static int append_archive(void *context, const struct kept_archive *kept)
{
	struct listing *listing = context;

	buffer_append_string(listing->body, listing->count++ ? ",{\"id\":" : "{\"id\":");
	json_append_string(listing->body, kept->id);
	buffer_append_string(listing->body, ",\"service\":");
	json_append_string(listing->body, kept->archive.service);
	buffer_append_string(listing->body, ",\"version\":");
	json_append_string(listing->body, kept->archive.version);
	buffer_printf(listing->body, ",\"file_count\":%u,\"bytes\":", kept->archive.file_count);
	json_append_uint(listing->body, kept->origin.bytes);
	http_append_origin(listing->body, &kept->origin);
	buffer_append_byte(listing->body, '}');
	listing->bytes += kept->origin.bytes;
	return 0;
}

void http_handle_source_list(struct http_api *api, const struct api_request *request,
			     struct http_response *response)
{
	struct symbol_space *space = api_symbols(api, request->http, NULL);
	struct listing listing = { .body = &response->body };
	struct error err = { 0 };

	buffer_append_string(listing.body, "{\"archives\":[");
	int rc = space ? source_files_list(&space->sources, append_archive, &listing) : 0;
	if (rc) {
		error_errno(&err, rc, "sources");
		http_respond_failure(response, &err, "");
		return;
	}
	buffer_append_string(listing.body, "],\"bytes\":");
	json_append_uint(listing.body, listing.bytes);
	buffer_append_string(listing.body, ",\"bytes_max\":");
	json_append_uint(listing.body, space ? space->sources.cache.bytes_max : 0);
	buffer_append_string(listing.body, "}\n");
}
