// SPDX-License-Identifier: Apache-2.0
#include "proto/export.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/export/collapsed.h"
#include "base/export/svg.h"
#include "proto/pprof.h"

static const struct {
	enum export_format format;
	const char *suffix;
	const char *media_type;
} formats[] = {
	{ EXPORT_COLLAPSED, ".collapsed", "text/plain; charset=utf-8" },
	{ EXPORT_SVG, ".svg", "image/svg+xml" },
	{ EXPORT_PPROF, ".pb.gz", "application/octet-stream" },
};

static bool ends_in(const char *path, const char *suffix)
{
	size_t size = strlen(path), suffix_size = strlen(suffix);

	return size > suffix_size && !strcmp(path + size - suffix_size, suffix);
}

int export_format_of_path(const char *path, enum export_format *ret_format, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (ends_in(path, formats[i].suffix)) {
			*ret_format = formats[i].format;
			return 0;
		}
	}
	return error_set(err, -EINVAL,
			 "\"%s\": unknown format; the file name must end in %s, %s or %s", path,
			 formats[0].suffix, formats[1].suffix, formats[2].suffix);
}

const char *export_media_type(enum export_format format)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (formats[i].format == format)
			return formats[i].media_type;
	return "application/octet-stream";
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
	}
	return rc ? error_errno(err, rc, "export the profile") : 0;
}
