// SPDX-License-Identifier: Apache-2.0
// A profile for speedscope: sampled profiles with shared frames.
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

/**
 * Append the samples of @type as a speedscope file (github.com/jlfwong/speedscope,
 * src/lib/file-format-spec.ts). A profile with time has one speedscope profile per thread, whose samples are in
 * time order without the gaps between them; one without time has a single one, with the process as root frame.
 * Returns 0; -EINVAL if @type does not have five parts; -ENOMEM; -E2BIG (too many threads or functions);
 * -EFBIG when the buffer's limit is hit.
 */
int speedscope_encode(const struct profile *profile, const char *type, const char *title,
		      struct buffer *buffer);
