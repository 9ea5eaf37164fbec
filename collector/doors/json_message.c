// SPDX-License-Identifier: Apache-2.0
#include "collector/doors/json_message.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/import/json_reader.h"
#include "base/import/wire.h"

enum {
	LENGTH_BYTES = 5, // of a message's length, which is known after it: a varint may be padded
	OBJECT_DEPTH_MAX = 32,
};

struct encoding {
	struct json_reader reader;
	struct buffer *message;
	struct buffer scratch; // a string without its escapes
	struct error *err;
	uint32_t depth;
};

bool json_is_type(const char *content_type)
{
	static const char json[] = "application/json";

	return content_type && strncasecmp(content_type, json, strlen(json)) == 0;
}

static void append_key(struct encoding *encoding, const struct json_field *field,
		       enum wire_type type)
{
	buffer_append_varint(encoding->message, (uint64_t)field->number << 3 | type);
}

static void append_bytes(struct encoding *encoding, const struct json_field *field,
			 const void *bytes, size_t size)
{
	append_key(encoding, field, WIRE_BYTES);
	buffer_append_varint(encoding->message, size);
	buffer_append(encoding->message, bytes, size);
}

static int base64_digit(char byte)
{
	if (byte >= 'A' && byte <= 'Z')
		return byte - 'A';
	if (byte >= 'a' && byte <= 'z')
		return byte - 'a' + 26;
	if (byte >= '0' && byte <= '9')
		return byte - '0' + 52;
	return byte == '+' || byte == '-' ? 62 : byte == '/' || byte == '_' ? 63 : -1;
}

/** Decode in place. False: it is not base64. */
static bool decode_base64(struct buffer *text)
{
	uint32_t bits = 0, count = 0;
	size_t size = 0;

	while (text->size && text->bytes[text->size - 1] == '=')
		text->size--;
	for (size_t i = 0; i < text->size; i++) {
		int digit = base64_digit((char)text->bytes[i]);

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		count += 6;
		if (count >= 8) {
			count -= 8;
			text->bytes[size++] = (uint8_t)(bits >> count);
		}
	}
	text->size = size;
	return true;
}

static bool encode_string(struct encoding *encoding, const struct json_field *field)
{
	struct json_text text;

	if (json_peek(&encoding->reader) != JSON_IS_STRING ||
	    !json_read_string(&encoding->reader, &text))
		return false;
	if (field->kind == JSON_TEXT && !memchr(text.at, '\\', text.size)) {
		append_bytes(encoding, field, text.at, text.size);
		return true;
	}
	buffer_clear(&encoding->scratch);
	json_append_unescaped(&encoding->scratch, text);
	if (field->kind == JSON_BASE64 && !decode_base64(&encoding->scratch))
		return false;
	if (encoding->scratch.rc)
		encoding->message->rc = encoding->scratch.rc;
	append_bytes(encoding, field, encoding->scratch.bytes, encoding->scratch.size);
	return true;
}

static bool encode_number(struct encoding *encoding, const struct json_field *field)
{
	struct json_reader *reader = &encoding->reader;
	int64_t number = 0;
	double real = 0;
	uint64_t bits;

	switch (field->kind) {
	case JSON_BOOL:
		append_key(encoding, field, WIRE_VARINT);
		buffer_append_varint(encoding->message, json_read_bool(reader));
		return true;
	case JSON_DOUBLE:
		if (!json_read_double(reader, &real))
			return false;
		memcpy(&bits, &real, sizeof(bits));
		break;
	default:
		if (!json_read_integer(reader, &number))
			return false;
		bits = (uint64_t)number;
	}
	append_key(encoding, field, field->kind == JSON_INTEGER ? WIRE_VARINT : WIRE_FIXED64);
	if (field->kind == JSON_INTEGER) {
		buffer_append_varint(encoding->message, bits);
	} else {
		bits = htole64(bits);
		buffer_append(encoding->message, &bits, sizeof(bits));
	}
	return true;
}

static int encode_members(struct encoding *encoding, const struct json_field *fields);

static int encode_object(struct encoding *encoding, const struct json_field *field)
{
	struct buffer *message = encoding->message;

	if (++encoding->depth > OBJECT_DEPTH_MAX)
		return error_set(encoding->err, -EBADMSG, "JSON: %s: nested too deep", field->name);
	append_key(encoding, field, WIRE_BYTES);
	size_t at = message->size;
	buffer_extend(message, LENGTH_BYTES);
	int rc = encode_members(encoding, field->fields);
	encoding->depth--;
	if (rc || message->rc)
		return rc;
	size_t size = message->size - at - LENGTH_BYTES;
	for (int i = 0; i < LENGTH_BYTES; i++, size >>= 7)
		message->bytes[at + (size_t)i] =
			(uint8_t)((size & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
	return 0;
}

static int encode_value(struct encoding *encoding, const struct json_field *field)
{
	bool is_sound = true;

	if (field->kind == JSON_OBJECT) {
		if (json_peek(&encoding->reader) == JSON_IS_OBJECT)
			return encode_object(encoding, field);
		is_sound = false;
	} else if (field->kind == JSON_TEXT || field->kind == JSON_BASE64) {
		is_sound = encode_string(encoding, field);
	} else {
		is_sound = encode_number(encoding, field);
	}
	if (is_sound && !encoding->reader.failed)
		return 0;
	return error_set(encoding->err, -EBADMSG, "JSON: %s: not of the type that is expected",
			 field->name);
}

/** As a name, whatever its style: "rawProfile", "raw_profile". */
static bool names_field(struct json_text name, const char *wanted)
{
	size_t at = 0;

	for (size_t i = 0; i < name.size; i++) {
		if (name.at[i] == '_')
			continue;
		char a = name.at[i], b = wanted[at++];
		if (!b || (a | 0x20) != (b | 0x20))
			return false;
	}
	return !wanted[at];
}

static const struct json_field *find_field(const struct json_field *fields, struct json_text name)
{
	for (; fields->name; fields++)
		if (names_field(name, fields->name))
			return fields;
	return NULL;
}

static bool is_null(struct json_reader *reader)
{
	if (json_peek(reader) != JSON_IS_WORD || *reader->at != 'n')
		return false;
	json_skip(reader);
	return true;
}

static int encode_member(struct encoding *encoding, const struct json_field *field)
{
	struct json_reader *reader = &encoding->reader;
	bool is_first = true;
	int rc = 0;

	if (is_null(reader))
		return 0;
	if (json_peek(reader) != JSON_IS_ARRAY)
		return encode_value(encoding, field);
	json_enter(reader, '[');
	while (!rc && json_next_item(reader, &is_first))
		rc = encode_value(encoding, field);
	return rc;
}

static int encode_members(struct encoding *encoding, const struct json_field *fields)
{
	struct json_reader *reader = &encoding->reader;
	struct json_text name;
	bool is_first = true;
	int rc = 0;

	json_enter(reader, '{');
	while (!rc && json_next_member(reader, &is_first, &name)) {
		const struct json_field *field = find_field(fields, name);

		if (field)
			rc = encode_member(encoding, field);
		else
			json_skip(reader);
	}
	if (!rc && reader->failed)
		rc = error_set(encoding->err, -EBADMSG, "JSON: malformed");
	return rc;
}

int json_message_encode(const struct json_field *fields, const char *text, size_t size,
			struct buffer *ret_message, struct error *err)
{
	text = size ? text : ""; // nothing may be nowhere
	struct encoding encoding = { .reader = { text, text + size, false },
				     .message = ret_message,
				     .err = err };
	int rc = encode_members(&encoding, fields);

	buffer_deinit(&encoding.scratch);
	if (!rc && ret_message->rc)
		rc = error_errno(err, ret_message->rc, "JSON: no memory for the message");
	return rc;
}
