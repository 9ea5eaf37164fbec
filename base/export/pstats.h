// SPDX-License-Identifier: Apache-2.0
// A profile for Python's pstats and what reads its files (SnakeViz, gprof2dot): functions and their callers.
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

/**
 * Append the samples of @type, whose unit has to be nanoseconds, as a file that pstats.Stats() loads: a dict in
 * the marshal format. Calls are not counted: their number is 0; a function's line is 0. Returns 0; -EINVAL
 * (another unit); -ENOMEM; -E2BIG (too many functions or calls); -EFBIG when the buffer's limit is hit.
 */
int pstats_encode(const struct profile *profile, const char *type, struct buffer *buffer);
