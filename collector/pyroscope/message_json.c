// SPDX-License-Identifier: Apache-2.0
#include "collector/pyroscope/message_json.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/json_text.h"

enum { NAME_BYTES = 64 };

#define DOUBLE_FORMAT "%.17g"

/** "profile_typeID" is "profileTypeID". */
static void camel_case(const char *name, char ret_name[NAME_BYTES])
{
	size_t size = 0;
	bool raise = false;

	for (; *name && size + 1 < NAME_BYTES; name++) {
		if (*name == '_') {
			raise = true;
			continue;
		}
		ret_name[size++] = raise ? (char)toupper((unsigned char)*name) : *name;
		raise = false;
	}
	ret_name[size] = '\0';
}

/** Bytes of one value of the field in its C struct. */
static size_t value_size(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	default: // the schema has no others
		return 4;
	}
}

// ---- writing --------------------------------------------------------------------------------

static void append_value(const ProtobufCFieldDescriptor *field, const void *value,
			 struct buffer *buffer)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT64:
		buffer_append_byte(buffer, '"');
		json_append_int(buffer, *(const int64_t *)value);
		buffer_append_byte(buffer, '"');
		break;
	case PROTOBUF_C_TYPE_UINT64:
		buffer_append_byte(buffer, '"');
		json_append_uint(buffer, *(const uint64_t *)value);
		buffer_append_byte(buffer, '"');
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		if (isfinite(*(const double *)value))
			buffer_printf(buffer, DOUBLE_FORMAT, *(const double *)value);
		else
			buffer_append_string(buffer, "\"NaN\"");
		break;
	case PROTOBUF_C_TYPE_BOOL:
		buffer_append_string(buffer, *(const protobuf_c_boolean *)value ? "true" : "false");
		break;
	case PROTOBUF_C_TYPE_STRING:
		json_append_string(buffer, *(char *const *)value);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		message_json_append(*(ProtobufCMessage *const *)value, buffer);
		break;
	default:
		json_append_int(buffer, *(const int32_t *)value);
	}
}

static bool is_default(const ProtobufCFieldDescriptor *field, const void *value)
{
	static const char zero[8];

	if (field->type == PROTOBUF_C_TYPE_STRING)
		return !*(char *const *)value || !**(char *const *)value;
	return memcmp(value, zero, value_size(field)) == 0;
}

static void append_repeated(const ProtobufCFieldDescriptor *field, const char *values, size_t count,
			    struct buffer *buffer)
{
	buffer_append_byte(buffer, '[');
	for (size_t i = 0; i < count; i++) {
		if (i)
			buffer_append_byte(buffer, ',');
		append_value(field, values + i * value_size(field), buffer);
	}
	buffer_append_byte(buffer, ']');
}

void message_json_append(const ProtobufCMessage *message, struct buffer *buffer)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	char name[NAME_BYTES];
	bool is_first = true;

	buffer_append_byte(buffer, '{');
	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		const char *value = (const char *)message + field->offset;
		bool is_repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
		size_t count = is_repeated ? *(const size_t *)((const char *)message +
							       field->quantifier_offset)
					   : 1;

		if (is_repeated ? !count : is_default(field, value))
			continue;
		camel_case(field->name, name);
		buffer_append_string(buffer, is_first ? "\"" : ",\"");
		is_first = false;
		buffer_append_string(buffer, name);
		buffer_append_string(buffer, "\":");
		if (is_repeated)
			append_repeated(field, *(char *const *)value, count, buffer);
		else
			append_value(field, value, buffer);
	}
	buffer_append_byte(buffer, '}');
}

// ---- reading --------------------------------------------------------------------------------

static int parse_message(const ProtobufCMessageDescriptor *descriptor, const json_t *object,
			 ProtobufCMessage **ret_message, struct error *err);

static int refuse(const ProtobufCFieldDescriptor *field, const char *expected, struct error *err)
{
	char name[NAME_BYTES];

	camel_case(field->name, name);
	return error_set(err, -EINVAL, "%s: expected %s", name, expected);
}

/** A number, or a string that is one. */
static int parse_integer(const ProtobufCFieldDescriptor *field, const json_t *json,
			 int64_t *ret_value, struct error *err)
{
	const char *text = json_string_value(json);
	char *end = NULL;

	if (json_is_integer(json)) {
		*ret_value = json_integer_value(json);
		return 0;
	}
	if (json_is_real(json) && fabs(json_real_value(json)) < 9e18) {
		*ret_value = (int64_t)json_real_value(json);
		return 0;
	}
	errno = 0;
	if (text && *text)
		*ret_value = strtoll(text, &end, 10);
	return end && !*end && !errno ? 0 : refuse(field, "a whole number", err);
}

static int parse_double(const ProtobufCFieldDescriptor *field, const json_t *json,
			double *ret_value, struct error *err)
{
	const char *text = json_string_value(json);
	char *end = NULL;

	if (json_is_number(json)) {
		*ret_value = json_number_value(json);
		return 0;
	}
	if (text && *text)
		*ret_value = strtod(text, &end);
	return end && !*end ? 0 : refuse(field, "a number", err);
}

static int parse_enum(const ProtobufCFieldDescriptor *field, const json_t *json, int32_t *ret_value,
		      struct error *err)
{
	const ProtobufCEnumValue *known =
		json_is_string(json) ? protobuf_c_enum_descriptor_get_value_by_name(
					       field->descriptor, json_string_value(json))
				     : NULL;

	if (!known && !json_is_integer(json))
		return refuse(field, "a known name", err);
	*ret_value = known ? known->value : (int32_t)json_integer_value(json);
	return 0;
}

static int parse_string(const ProtobufCFieldDescriptor *field, const json_t *json, char **ret_value,
			struct error *err)
{
	if (!json_is_string(json))
		return refuse(field, "a string", err);

	char *copy = strdup(json_string_value(json));
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory for the request");
	*ret_value = copy;
	return 0;
}

static int parse_value(const ProtobufCFieldDescriptor *field, const json_t *json, void *value,
		       struct error *err)
{
	int64_t integer = 0;
	int rc;

	switch (field->type) {
	case PROTOBUF_C_TYPE_DOUBLE:
		return parse_double(field, json, value, err);
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)value = json_is_true(json);
		return 0;
	case PROTOBUF_C_TYPE_STRING:
		return parse_string(field, json, value, err);
	case PROTOBUF_C_TYPE_MESSAGE:
		return parse_message(field->descriptor, json, value, err);
	case PROTOBUF_C_TYPE_ENUM:
		return parse_enum(field, json, value, err);
	default:
		rc = parse_integer(field, json, &integer, err);
		memcpy(value, &integer,
		       value_size(field)); // little-endian, as all machines we run on
		return rc;
	}
}

static int parse_repeated(const ProtobufCFieldDescriptor *field, const json_t *json,
			  ProtobufCMessage *message, struct error *err)
{
	size_t *count = (size_t *)((char *)message + field->quantifier_offset), i;
	const json_t *item;

	if (!json_is_array(json))
		return refuse(field, "a list", err);
	if (!json_array_size(json))
		return 0;

	char *values = calloc(json_array_size(json), value_size(field));
	if (!values)
		return error_set(err, -ENOMEM, "out of memory for the request");
	*(char **)((char *)message + field->offset) = values;
	json_array_foreach(json, i, item)
	{
		int rc = parse_value(field, item, values + i * value_size(field), err);

		if (rc)
			return rc;
		*count = i + 1; // what is freed
	}
	return 0;
}

static int parse_fields(const json_t *object, ProtobufCMessage *message, struct error *err)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	char name[NAME_BYTES];
	int rc = 0;

	for (unsigned int i = 0; !rc && i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		camel_case(field->name, name);
		const json_t *json = json_object_get(object, name);
		if (!json)
			json = json_object_get(object, field->name);
		if (!json || json_is_null(json))
			continue;
		rc = field->label == PROTOBUF_C_LABEL_REPEATED
			     ? parse_repeated(field, json, message, err)
			     : parse_value(field, json, (char *)message + field->offset, err);
	}
	return rc;
}

static int parse_message(const ProtobufCMessageDescriptor *descriptor, const json_t *object,
			 ProtobufCMessage **ret_message, struct error *err)
{
	if (!json_is_object(object))
		return error_set(err, -EINVAL, "expected an object");

	ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);
	if (!message)
		return error_set(err, -ENOMEM, "out of memory for the request");
	protobuf_c_message_init(descriptor, message);
	int rc = parse_fields(object, message, err);
	if (rc) {
		protobuf_c_message_free_unpacked(message, NULL);
		return rc;
	}
	*ret_message = message;
	return 0;
}

int message_json_parse(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t size,
		       ProtobufCMessage **ret_message, struct error *err)
{
	json_error_t error;
	json_t *root = json_loadb(text, size, 0, &error);

	if (!root)
		return error_set(err, -EINVAL, "JSON, line %d: %.100s", error.line, error.text);
	int rc = parse_message(descriptor, root, ret_message, err);
	json_decref(root);
	return rc;
}
