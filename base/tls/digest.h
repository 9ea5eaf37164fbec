// SPDX-License-Identifier: Apache-2.0
// SHA-256 of files.
#pragma once

#include <stdint.h>

enum { DIGEST_BYTES = 32 };

/** Of the first @bytes of @fd. Returns 0; -EIO if there are fewer; -errno. */
int digest_of_file(int fd, uint64_t bytes, uint8_t ret_digest[DIGEST_BYTES]);
