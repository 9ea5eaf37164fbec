// SPDX-License-Identifier: Apache-2.0
#include "cli/output_format.h"

#include <errno.h>

int output_format_find(const char *path, const char *name, enum export_format *ret_format,
		       struct error *err)
{
	struct error cause = { 0 };

	if (!name)
		return export_format_of_path(path, ret_format, err);
	if (export_format_of_name(name, ret_format, &cause))
		return error_set(err, -EINVAL, "--format: %s", cause.text);
	return 0;
}
