// SPDX-License-Identifier: Apache-2.0
// JSON, read in place from its beginning to its end: nothing is allocated, so a hostile text costs no more than its bytes. A
// fault sticks in `failed`, and everything after it reads as the end.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum { JSON_DEPTH_MAX = 128 };

struct json_reader {
	const char *at, *end;
	bool failed;
};

/** A string, in place, as it is written: between its quotation marks. */
struct json_text {
	const char *at;
	size_t size;
};

/** What the next value is. */
enum json_kind {
	JSON_NONE,
	JSON_IS_OBJECT,
	JSON_IS_ARRAY,
	JSON_IS_STRING,
	JSON_IS_NUMBER,
	JSON_IS_WORD
};
enum json_kind json_peek(struct json_reader *reader);

/** Read the '{' or '[' that begins a value. */
bool json_enter(struct json_reader *reader, char bracket);
/** The next member of an object, whose value is read next, or skipped. False: the object has ended, and is behind. */
bool json_next_member(struct json_reader *reader, bool *is_first, struct json_text *ret_name);
/** The next item of an array. False: the array has ended. */
bool json_next_item(struct json_reader *reader, bool *is_first);

bool json_read_string(struct json_reader *reader, struct json_text *ret_text);
/** A number, or a string with one. False: it is neither, or no number; then it was read, or the reader failed. */
bool json_read_double(struct json_reader *reader, double *ret_value);
/** A whole number, or a string with one. An unsigned one above INT64_MAX comes as its bits. */
bool json_read_integer(struct json_reader *reader, int64_t *ret_value);
/** A number, or a string with one, times @scale, rounded to a whole number: exact for decimal fractions. */
bool json_read_scaled(struct json_reader *reader, int64_t scale, int64_t *ret_value);
/** true, false; null counts as false. */
bool json_read_bool(struct json_reader *reader);
/** Read past a value of any kind. */
void json_skip(struct json_reader *reader);

/** Append a string without its escapes. */
void json_append_unescaped(struct buffer *buffer, struct json_text text);
bool json_text_is(struct json_text text, const char *wanted);
