// SPDX-License-Identifier: Apache-2.0
// Serves the web page's files.
#include "collector/http/http_handlers.h"

#include <string.h>

#include "collector/http/web_assets.h"

static const struct web_asset *find_asset(const char *path)
{
	for (uint32_t i = 0; i < web_asset_count; i++) {
		if (strcmp(web_assets[i].path, path) == 0)
			return &web_assets[i];
	}
	return NULL;
}

bool http_handle_asset(const struct http_request *request, struct http_response *response)
{
	// Parameters are ignored: the page keeps its state in the query string and the fragment.
	const char *path = strcmp(request->path, "/index.html") == 0 ? "/" : request->path;
	const struct web_asset *asset = find_asset(path);

	if (!asset)
		return false;

	response->endpoint = "page";
	response->media_type = asset->media_type;
	response->etag = asset->etag;
	response->varies = true;
	response->is_gzip = request->accepts_gzip;
	response->fixed_body = request->accepts_gzip ? asset->gzip : asset->plain;
	response->fixed_size = request->accepts_gzip ? asset->gzip_size : asset->plain_size;
	return true;
}
