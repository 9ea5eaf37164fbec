// SPDX-License-Identifier: Apache-2.0
// A profile as a file for other tools. Values of equal stacks are added up over slots and series
// of one type; the process name (label "process") is the root frame where the format has no other
// place for it. pprof has: its samples keep their series' labels, and are added up per series.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/profile.h"

enum export_format {
	EXPORT_COLLAPSED, // Brendan Gregg's stackcollapse lines: a;b;c value
	EXPORT_SVG,       // a self-contained flame graph picture: hover, zoom, search
	EXPORT_PPROF,     // gzipped profile.proto (google/pprof proto/profile.proto)
};

/**
 * The format that a file name's suffix says: .collapsed .svg .pb.gz. Returns 0; -EINVAL and @err
 * listing the suffixes.
 */
int export_format_of_path(const char *path, enum export_format *ret_format, struct error *err);
/** The media type for HTTP: "text/plain; charset=utf-8", "image/svg+xml", "application/octet-stream". */
const char *export_media_type(enum export_format format);

/**
 * Write the samples of @type to @buffer. A stack whose end is not complete begins, after the
 * process name, with "[truncated: reason]". @title is shown in the SVG.
 * Returns 0; -ENOMEM; -EFBIG when the buffer's limit is hit.
 */
int export_profile(const struct profile *profile, const char *type, enum export_format format,
		   const char *title, struct buffer *buffer, struct error *err);
