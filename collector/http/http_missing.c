// SPDX-License-Identifier: Apache-2.0
// Answers with the files whose symbols are missing most: what to upload.
#include "collector/http/http_handlers.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "collector/query/missing_symbols.h"

/** A file may be there, and not have been read in time, or have no name for the frame. */
static bool is_uploaded(struct symbol_space *symbols, const char *build_id)
{
	_cleanup_close_ int fd = symbols ? debug_files_find(&symbols->files, build_id) : -1;

	return fd >= 0;
}

static void append_file(struct buffer *body, const struct profile *profile,
			const struct missing_file *file, struct symbol_space *symbols)
{
	const char *build_id = profile_string(profile, file->build_id);

	buffer_append_string(body, "{\"build_id\":");
	json_append_string(body, build_id);
	buffer_append_string(body, ",\"file\":");
	json_append_string(body, profile_string(profile, file->module));
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, file->value);
	buffer_printf(body, ",\"uploaded\":%s}", is_uploaded(symbols, build_id) ? "true" : "false");
}

void http_handle_missing_symbols(struct http_api *api, const struct api_request *request,
				 struct http_response *response)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_free_ struct missing_file *files = NULL;
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };
	uint32_t count = 0;
	int64_t total = 0;
	int rc = query_profile(&query, &profile, &err);

	if (!rc && (rc = missing_symbols_of(profile, &files, &count, &total)))
		error_errno(&err, rc, "missing symbols");
	if (rc) {
		http_respond_failure(response, &err, api_failed_field(request));
		return;
	}
	struct symbol_space *symbols = api_symbols(api, request->http, NULL);
	buffer_append_byte(body, '{');
	api_append_type(body, request);
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, total);
	buffer_printf(body, ",\"file_count\":%u,\"files\":[", count);
	for (uint32_t i = 0; i < count && i < request->limit; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_file(body, profile, &files[i], symbols);
	}
	buffer_append_string(body, "]}\n");
}
