// SPDX-License-Identifier: Apache-2.0
// Exports a profile as a file for other tools. Values of equal stacks are summed over slots and
// series of one type, and the process name (label "process") becomes the root frame. pprof files
// keep the series and their labels instead, timelines threads and time.
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/profile/profile.h"

enum export_format {
	EXPORT_COLLAPSED,  // Brendan Gregg's stackcollapse lines: a;b;c value
	EXPORT_SVG,        // a self-contained flame graph picture: hover, zoom, search
	EXPORT_PPROF,      // gzipped profile.proto (google/pprof proto/profile.proto)
	EXPORT_SPEEDSCOPE, // speedscope's JSON
	EXPORT_CHROME,     // Trace Event Format: slices per thread, for Perfetto
	EXPORT_CALLGRIND,  // for KCachegrind and callgrind_annotate
	EXPORT_PSTATS,     // Python's marshalled cProfile statistics
	EXPORT_FORMATS,
};

struct export_format_spec {
	const char *name;        // "speedscope"
	const char *suffix;      // of file names: ".speedscope.json"
	const char *media_type;  // for HTTP, as Content-Type
	const char *disposition; // and as Content-Disposition: the file's name
	const char *reader;      // what opens it, in a few words
	bool uses_time;          // its samples are to keep their slots
	bool needs_time;         // and it has no meaning without
};

const struct export_format_spec *export_format_spec(enum export_format format);

/** The format of @name. Returns 0; -EINVAL with the names in @err. */
int export_format_of_name(const char *name, enum export_format *ret_format, struct error *err);
/**
 * The format of a file name's suffix. Returns 0; -EINVAL with the suffixes in @err.
 */
int export_format_of_path(const char *path, enum export_format *ret_format, struct error *err);

/** All names, or all suffixes, as "a, b and c". */
enum { EXPORT_WORDS_BYTES = 160 };
void export_format_names(char text[EXPORT_WORDS_BYTES]);
void export_format_suffixes(char text[EXPORT_WORDS_BYTES]);
/** A line for each: its suffix, its name, what opens it. */
enum { EXPORT_HELP_BYTES = 768 };
void export_format_help(char text[EXPORT_HELP_BYTES]);

/**
 * Append the samples of @type to @buffer. A truncated stack begins, after the process name, with
 * "[truncated: reason]". @title: the SVG's and speedscope's.
 * Returns 0; -EINVAL (the format cannot hold the type); -ENOMEM; -E2BIG; -EFBIG when the buffer's limit is hit.
 */
int export_profile(const struct profile *profile, const char *type, enum export_format format,
		   const char *title, struct buffer *buffer, struct error *err);
