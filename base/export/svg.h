// SPDX-License-Identifier: Apache-2.0
// A flame graph as one self-contained SVG file: hover, click to zoom, search, all within the file.
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

/**
 * Append the flame graph of the samples of @type, root at the bottom. @title may be any bytes.
 * Boxes narrower than a tenth of a pixel are left out; their value stays in their parents. The
 * profile's range stands below the title where it is known. Returns 0; -ENOMEM; -E2BIG when there
 * are more distinct frames than a tree holds; -EFBIG when the buffer's limit is hit.
 */
int svg_encode(const struct profile *profile, const char *type, const char *title,
	       struct buffer *buffer);
