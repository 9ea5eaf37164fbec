// SPDX-License-Identifier: Apache-2.0
// Protobuf's JSON (https://protobuf.dev/programming-guides/json/) as the same message in its wire format, so that what follows reads
// one format. Names may be lowerCamelCase or as in the .proto file; members that are not in the table are skipped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum json_field_kind {
	JSON_TEXT = 1,
	JSON_BASE64,  // bytes
	JSON_INTEGER, // a varint; a string with a number, too
	JSON_FIXED64,
	JSON_DOUBLE,
	JSON_BOOL,
	JSON_OBJECT,
};

/** A field, repeated or not. A table ends with a zeroed one. */
struct json_field {
	const char *name; // lowerCamelCase
	uint32_t number;
	enum json_field_kind kind;
	const struct json_field *fields; // of an object
};

/** Does a Content-Type say JSON? NULL: no. */
bool json_is_type(const char *content_type);

/** Append the message of @text. Returns 0; -EBADMSG with the member in @err; -EFBIG, -EDQUOT or -ENOMEM. */
int json_message_encode(const struct json_field *fields, const char *text, size_t size,
			struct buffer *ret_message, struct error *err);
