// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void format_text(struct error *err, int code, const char *format, va_list args)
{
	err->code = code;
	vsnprintf(err->text, sizeof(err->text), format, args);
}

int error_set(struct error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	format_text(err, code, format, args);
	va_end(args);
	return code;
}

int error_errno(struct error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	format_text(err, code, format, args);
	va_end(args);

	size_t used = strlen(err->text);
	char words[64];
	const char *reason = strerror_r(-code, words, sizeof(words));
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", reason);
	return code;
}
