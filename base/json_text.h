// SPDX-License-Identifier: Apache-2.0
// Writes JSON straight into a buffer: responses may hold a million numbers.
#pragma once

#include <stdint.h>

#include "base/buffer.h"

/** Append a string in quotes. Bytes that are not UTF-8 become U+FFFD. */
void json_append_string(struct buffer *buffer, const char *string);
void json_append_int(struct buffer *buffer, int64_t number);
void json_append_uint(struct buffer *buffer, uint64_t number);
/** Append "[1,2,3]". */
void json_append_ints(struct buffer *buffer, const int64_t *numbers, uint32_t count);
