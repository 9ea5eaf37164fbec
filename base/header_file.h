// SPDX-License-Identifier: Apache-2.0
// Headers of requests in a file, as some servers want a tenant or a key: "name: value", one a line. Values may be secrets: like
// secret_file.h, they never come from argv or the environment.
#pragma once

#include <stdint.h>

#include "base/error.h"

enum {
	HEADERS_MAX = 16,
	HEADER_FILE_BYTES_MAX = 16 << 10,
};

/** A zeroed struct is empty. */
struct header_list {
	struct header {
		const char *name; // in lower case, as gRPC and HTTP/2 want it
		const char *value;
	} headers[HEADERS_MAX];
	uint32_t count;
	char *bytes; // of all of them
};

/** Overwrites the values, too. */
void header_list_deinit(struct header_list *list);

/**
 * Read @path; empty lines and those that begin with '#' are nothing. Returns 0; -EINVAL with the line's number in @err (no "name:
 * value", a name that is the protocol's own, bytes that no header carries, above a limit); -ENOMEM; -errno. @err never has a
 * value. @ret_list is untouched on failure.
 */
int header_file_read(const char *path, struct header_list *ret_list, struct error *err);
