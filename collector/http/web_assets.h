// SPDX-License-Identifier: Apache-2.0
// The web page's files and collector/openapi.yaml, embedded by collector/embed-web.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct web_asset {
	const char *path; // "/app.js"; index.html is "/"
	const char *media_type;
	const char *etag; // in quotes: a hash of the content
	const unsigned char *plain;
	size_t plain_size;
	const unsigned char *gzip; // compressed
	size_t gzip_size;
};

extern const struct web_asset web_assets[];
extern const uint32_t web_asset_count;
