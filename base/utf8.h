// SPDX-License-Identifier: Apache-2.0
// Names come from processes and files as bytes; JSON, protobuf and XML want UTF-8. What enters the
// profile model is made valid once, here, so that nobody later has to ask.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Is it UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, at most U+10FFFF? */
bool utf8_is_valid(const char *text, size_t size);

/** Replace each byte that is no part of a valid character by '?', in place. */
void utf8_repair(char *text, size_t size);

/** utf8_repair() a C string, and replace its control characters, by '?' each byte, also those from U+0080 on: fit for a terminal. */
void utf8_clean(char *text);

/** The largest size up to @size_max that does not end within a character of @text. */
size_t utf8_cut(const char *text, size_t size, size_t size_max);
