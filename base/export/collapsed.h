// SPDX-License-Identifier: Apache-2.0
// Collapsed stacks, one line each: process;root;...;leaf value (Brendan Gregg's stackcollapse).
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

/**
 * Append the samples of @type, equal lines added up and sorted frame by frame. The process name
 * (label "process") is the root; a stack whose end is not complete goes on with
 * "[truncated: reason]". Returns 0; -ENOMEM; -E2BIG when there are more distinct frames than a tree
 * holds; -EFBIG when the buffer's limit is hit.
 */
int collapsed_encode(const struct profile *profile, const char *type, struct buffer *buffer);
