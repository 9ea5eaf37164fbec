// SPDX-License-Identifier: Apache-2.0
#include "proto/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/export/callgrind.h"
#include "base/export/chrome_trace.h"
#include "base/export/collapsed.h"
#include "base/export/pstats.h"
#include "base/export/speedscope.h"
#include "base/export/svg.h"
#include "proto/pprof.h"

/** The end of file names, here and in HTTP. */
#define ENDS_IN(text) .suffix = text, .disposition = "attachment; filename=\"cairn" text "\""

static const struct export_format_spec formats[EXPORT_FORMATS] = {
	[EXPORT_COLLAPSED] = {
		.name = "collapsed",
		ENDS_IN(".collapsed"),
		.media_type = "text/plain; charset=utf-8",
		.reader = "stackcollapse",
	},
	[EXPORT_SVG] = {
		.name = "svg",
		ENDS_IN(".svg"),
		.media_type = "image/svg+xml",
		.reader = "an interactive flame graph",
	},
	[EXPORT_PPROF] = {
		.name = "pprof",
		ENDS_IN(".pb.gz"),
		.media_type = "application/octet-stream",
		.reader = "go tool pprof",
	},
	[EXPORT_SPEEDSCOPE] = {
		.name = "speedscope",
		ENDS_IN(".speedscope.json"),
		.media_type = "application/json",
		.reader = "speedscope",
		.uses_time = true,
	},
	[EXPORT_CHROME] = {
		.name = "chrome",
		ENDS_IN(".trace.json"),
		.media_type = "application/json",
		.reader = "Perfetto",
		.uses_time = true,
		.needs_time = true,
	},
	[EXPORT_CALLGRIND] = {
		.name = "callgrind",
		ENDS_IN(".callgrind"),
		.media_type = "application/octet-stream",
		.reader = "KCachegrind",
	},
	[EXPORT_PSTATS] = {
		.name = "pstats",
		ENDS_IN(".pstats"),
		.media_type = "application/octet-stream",
		.reader = "Python's pstats and SnakeViz",
	},
};

const struct export_format_spec *export_format_spec(enum export_format format)
{
	return &formats[format];
}

static bool ends_in(const char *path, const char *suffix)
{
	size_t size = strlen(path), suffix_size = strlen(suffix);

	return size > suffix_size && !strcmp(path + size - suffix_size, suffix);
}

/** Append word @i of EXPORT_FORMATS to a list as people write it. */
static void append_word(char text[EXPORT_WORDS_BYTES], const char *word, size_t i)
{
	size_t used = i ? strlen(text) : 0;
	const char *before = i == 0 ? "" : i + 1 == EXPORT_FORMATS ? " and " : ", ";

	snprintf(text + used, EXPORT_WORDS_BYTES - used, "%s%s", before, word);
}

void export_format_names(char text[EXPORT_WORDS_BYTES])
{
	for (size_t i = 0; i < EXPORT_FORMATS; i++)
		append_word(text, formats[i].name, i);
}

void export_format_suffixes(char text[EXPORT_WORDS_BYTES])
{
	for (size_t i = 0; i < EXPORT_FORMATS; i++)
		append_word(text, formats[i].suffix, i);
}

void export_format_help(char text[EXPORT_HELP_BYTES])
{
	size_t used = 0;

	for (size_t i = 0; i < EXPORT_FORMATS && used < EXPORT_HELP_BYTES; i++)
		used += (size_t)snprintf(text + used, EXPORT_HELP_BYTES - used,
					 "  %-16s  %-10s  %s\n", formats[i].suffix, formats[i].name,
					 formats[i].reader);
}

int export_format_of_name(const char *name, enum export_format *ret_format, struct error *err)
{
	char names[EXPORT_WORDS_BYTES];

	for (size_t i = 0; i < EXPORT_FORMATS; i++) {
		if (strcmp(name, formats[i].name) == 0) {
			*ret_format = (enum export_format)i;
			return 0;
		}
	}
	export_format_names(names);
	return error_set(err, -EINVAL, "\"%.40s\" is not one of %s", name, names);
}

int export_format_of_path(const char *path, enum export_format *ret_format, struct error *err)
{
	char suffixes[EXPORT_WORDS_BYTES];

	for (size_t i = 0; i < EXPORT_FORMATS; i++) {
		if (ends_in(path, formats[i].suffix)) {
			*ret_format = (enum export_format)i;
			return 0;
		}
	}
	export_format_suffixes(suffixes);
	return error_set(err, -EINVAL,
			 "\"%s\": unknown format; the file name must end in one of %s", path,
			 suffixes);
}

int export_profile(const struct profile *profile, const char *type, enum export_format format,
		   const char *title, struct buffer *buffer, struct error *err)
{
	int rc = -EINVAL;

	switch (format) {
	case EXPORT_COLLAPSED:
		rc = collapsed_encode(profile, type, buffer);
		break;
	case EXPORT_SVG:
		rc = svg_encode(profile, type, title, buffer);
		break;
	case EXPORT_PPROF:
		return pprof_encode(profile, type, buffer, err);
	case EXPORT_SPEEDSCOPE:
		rc = speedscope_encode(profile, type, title, buffer);
		break;
	case EXPORT_CHROME:
		rc = chrome_trace_encode(profile, type, buffer);
		break;
	case EXPORT_CALLGRIND:
		rc = callgrind_encode(profile, type, buffer);
		break;
	case EXPORT_PSTATS:
		rc = pstats_encode(profile, type, buffer);
		break;
	case EXPORT_FORMATS:
		break;
	}
	if (rc == -EINVAL)
		return error_set(err, rc, "%s files hold times only; %.80s is none",
				 formats[format].name, type);
	if (rc == -E2BIG)
		return error_set(err, rc,
				 "too many functions, calls or threads for a %s file; choose a "
				 "shorter range or fewer series",
				 formats[format].name);
	return rc ? error_errno(err, rc, "export the profile") : 0;
}
