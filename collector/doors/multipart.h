// SPDX-License-Identifier: Apache-2.0
// Parts of a multipart/form-data body (RFC 7578), in place.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct multipart_part {
	const void *bytes;
	size_t size;
};

/** Is it the Content-Type of such a body? NULL: no. */
bool multipart_is_type(const char *content_type);

/** The first part with @name. False: there is none, or the body is malformed. */
bool multipart_find(const char *content_type, const void *bytes, size_t size, const char *name,
		    struct multipart_part *ret_part);
