// SPDX-License-Identifier: Apache-2.0
// One failure: a negative errno for the program, a sentence for the reader.
#pragma once

#include <stddef.h>

enum { ERROR_TEXT_BYTES = 400 };

/** Lives on the caller's stack. `code` is 0 or a negative errno; `text` never ends in a newline. */
struct error {
	int code;
	char text[ERROR_TEXT_BYTES];
};

/**
 * Fill @err with @code and the formatted text, and return @code. A NULL @err is allowed: the
 * code alone travels up then. Over-long text is cut.
 */
int error_set(struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** As error_set(), and appends ": " and the system's words for -@code. */
int error_errno(struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
