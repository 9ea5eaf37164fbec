// SPDX-License-Identifier: Apache-2.0
// A secret in a file: one line. It never comes from argv or the environment, which others can read.
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { SECRET_BYTES_MAX = 4096 }; // a token of an identity provider has some 2 KiB

/**
 * Read the beginning of @path, @size_max bytes at most, into @bytes, for what @what names in messages. Returns 0, with
 * *ret_size equal to @size_max if there may be more; -errno.
 */
int secret_file_read_bytes(const char *path, const char *what, char *bytes, size_t size_max,
			   size_t *ret_size, struct error *err);

/**
 * Read the first line of @path, without blanks around it. Returns 0; -EINVAL (empty, longer than
 * SECRET_BYTES_MAX, or bytes that no header carries); -errno. @err never has the content.
 */
int secret_file_read(const char *path, char ret_secret[SECRET_BYTES_MAX], struct error *err);

/** Overwrite memory that held a secret. */
void secret_erase(void *secret, size_t size);
