// SPDX-License-Identifier: Apache-2.0
// The format of a file that is written: --format, else its name's suffix.
#pragma once

#include "base/error.h"
#include "proto/export.h"

/** The format of --format @name; NULL: that of @path's suffix. Returns 0 or -EINVAL. */
int output_format_find(const char *path, const char *name, enum export_format *ret_format,
		       struct error *err);
