// SPDX-License-Identifier: Apache-2.0
#include "collector/doors/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
	BOUNDARY_BYTES_MAX = 70, // RFC 2046
	NAME_BYTES_MAX = 64,     // of a part that is searched for
};

static const char type[] = "multipart/form-data";

bool multipart_is_type(const char *content_type)
{
	return content_type && strncasecmp(content_type, type, strlen(type)) == 0;
}

/** "--" and the boundary of the Content-Type. False: it has none. */
static bool read_delimiter(const char *content_type, char delimiter[BOUNDARY_BYTES_MAX + 3])
{
	const char *at =
		multipart_is_type(content_type) ? strcasestr(content_type, "boundary=") : NULL;

	if (!at)
		return false;
	at += strlen("boundary=");
	bool is_quoted = *at == '"';
	at += is_quoted;
	size_t size = strcspn(at, is_quoted ? "\"" : "; \t");
	if (!size || size > BOUNDARY_BYTES_MAX)
		return false;
	snprintf(delimiter, BOUNDARY_BYTES_MAX + 3, "--%.*s", (int)size, at);
	return true;
}

/** Do the headers [@at, @end) of a part name it @name? */
static bool is_named(const char *at, const char *end, const char *name)
{
	char wanted[NAME_BYTES_MAX + 16];

	// Not filename="...": a blank or ';' stands before it.
	snprintf(wanted, sizeof(wanted), " name=\"%s\"", name);
	return memmem(at, (size_t)(end - at), wanted, strlen(wanted)) ||
	       (wanted[0] = ';', memmem(at, (size_t)(end - at), wanted, strlen(wanted)) != NULL);
}

bool multipart_find(const char *content_type, const void *bytes, size_t size, const char *name,
		    struct multipart_part *ret_part)
{
	char delimiter[BOUNDARY_BYTES_MAX + 3];
	const char *at = bytes, *end = at + size;

	if (!size || !read_delimiter(content_type, delimiter))
		return false;
	size_t delimiter_size = strlen(delimiter);
	at = memmem(at, size, delimiter, delimiter_size);
	while (at) {
		const char *headers = at + delimiter_size;
		const char *body = memmem(headers, (size_t)(end - headers), "\r\n\r\n", 4);
		const char *next =
			body ? memmem(body + 4, (size_t)(end - body - 4), delimiter, delimiter_size)
			     : NULL;

		// A part ends with a line's end before the next delimiter.
		if (!next || next < body + 6)
			return false;
		if (is_named(headers, body, name)) {
			*ret_part = (struct multipart_part){ body + 4, (size_t)(next - body) - 6 };
			return true;
		}
		at = next;
	}
	return false;
}
