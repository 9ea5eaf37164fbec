// SPDX-License-Identifier: Apache-2.0
// Exports a profile as a file for other tools. Values of equal stacks are summed over slots and
// series of one type, and the process name (label "process") becomes the root frame. pprof files
// keep the series and their labels instead.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/profile/profile.h"

enum export_format {
	EXPORT_COLLAPSED, // Brendan Gregg's stackcollapse lines: a;b;c value
	EXPORT_SVG,       // a self-contained flame graph picture: hover, zoom, search
	EXPORT_PPROF,     // gzipped profile.proto (google/pprof proto/profile.proto)
};

/**
 * The format of a file name's suffix: .collapsed .svg .pb.gz. Returns 0; -EINVAL with the suffixes in @err.
 */
int export_format_of_path(const char *path, enum export_format *ret_format, struct error *err);
/**
 * The media type for HTTP: "text/plain; charset=utf-8", "image/svg+xml",
 * "application/octet-stream".
 */
const char *export_media_type(enum export_format format);

/**
 * Append the samples of @type to @buffer. A truncated stack begins, after the process name, with
 * "[truncated: reason]". @title: the SVG's.
 * Returns 0; -ENOMEM; -EFBIG when the buffer's limit is hit.
 */
int export_profile(const struct profile *profile, const char *type, enum export_format format,
		   const char *title, struct buffer *buffer, struct error *err);
