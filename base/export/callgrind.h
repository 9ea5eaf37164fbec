// SPDX-License-Identifier: Apache-2.0
// A profile for KCachegrind and callgrind_annotate: functions, their lines, and calls between them.
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

/**
 * Append the samples of @type as a callgrind file, format version 1 ("Callgrind Format Specification" of
 * Valgrind's manual). Calls are not counted: each edge has one. Returns 0; -EINVAL if @type does not have five
 * parts; -ENOMEM; -E2BIG (too many functions or calls); -EFBIG when the buffer's limit is hit.
 */
int callgrind_encode(const struct profile *profile, const char *type, struct buffer *buffer);
