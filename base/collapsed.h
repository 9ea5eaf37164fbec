// SPDX-License-Identifier: Apache-2.0
// Collapsed stacks, one line each: process;root;...;leaf value (Brendan Gregg's stackcollapse).
#pragma once

#include "base/buffer.h"
#include "base/profile.h"

/**
 * Append the samples of @type, equal lines added up and sorted. The process name (label
 * "process") is the root; a stack whose end is not complete goes on with "[truncated: reason]".
 * Returns 0; -ENOMEM; -EFBIG when the buffer's limit is hit.
 */
int collapsed_encode(const struct profile *profile, const char *type, struct buffer *buffer);
