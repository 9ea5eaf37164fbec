// SPDX-License-Identifier: Apache-2.0
// What a gzip file or body has inside, or the bytes themselves if they are not compressed. The size that counts is the inflated one.
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

bool is_gzip(const void *bytes, size_t size);

/**
 * Inflate all members of @bytes into @ret_buffer, up to its size_max and its budget. Returns 0; -EBADMSG; -EFBIG at size_max;
 * -EDQUOT at the budget; -ENOMEM.
 */
int inflate_bytes(const void *bytes, size_t size, struct buffer *ret_buffer, struct error *err);
