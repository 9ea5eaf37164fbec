// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format, read in place: nothing is allocated for a message, so a hostile one costs no more than its bytes.
// https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/** One field of a message. */
struct wire_field {
	uint32_t number;
	enum wire_type type;
	uint64_t value;       // of a number
	const uint8_t *bytes; // of WIRE_BYTES
	size_t size;
};

/** A string of a message, in place. */
struct wire_text {
	const char *at;
	size_t size;
};

static inline struct reader wire_reader(const void *bytes, size_t size)
{
	const uint8_t *at = bytes;

	return (struct reader){ .at = at, .end = at ? at + size : at };
}

/** As reader_varint(); most numbers have one byte. */
static inline uint64_t wire_varint(struct reader *reader)
{
	if (reader->at < reader->end && *reader->at < 0x80 && !reader->failed)
		return *reader->at++;
	return reader_varint(reader);
}

static inline uint64_t wire_fixed(struct reader *reader, size_t size)
{
	const void *bytes = reader_bytes(reader, size);
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, size);
	return le64toh(value);
}

/** The next field. False at the end, and where the message is malformed: then @reader has failed. */
static inline bool wire_next(struct reader *reader, struct wire_field *ret_field)
{
	*ret_field = (struct wire_field){ 0 };
	if (reader->failed || reader->at == reader->end)
		return false;

	uint64_t key = wire_varint(reader);
	ret_field->number = (uint32_t)(key >> 3);
	ret_field->type = (enum wire_type)(key & 7);
	switch (key & 7) {
	case WIRE_VARINT:
		ret_field->value = wire_varint(reader);
		break;
	case WIRE_FIXED64:
		ret_field->value = wire_fixed(reader, 8);
		break;
	case WIRE_FIXED32:
		ret_field->value = wire_fixed(reader, 4);
		break;
	case WIRE_BYTES: {
		uint64_t size = wire_varint(reader);

		ret_field->bytes = reader_bytes(reader, size);
		ret_field->size = size;
		break;
	}
	default: // groups, which nobody uses any more
		reader->failed = true;
	}
	if (key >> 3 == 0 || key >> 3 > UINT32_MAX)
		reader->failed = true;
	return !reader->failed;
}

static inline struct reader wire_message(const struct wire_field *field)
{
	struct reader reader = wire_reader(field->bytes, field->size);

	reader.failed = field->type != WIRE_BYTES;
	return reader;
}

static inline struct wire_text wire_string(const struct wire_field *field)
{
	if (field->type != WIRE_BYTES)
		return (struct wire_text){ "", 0 };
	return (struct wire_text){ (const char *)field->bytes, field->size };
}

/** Is there another number of a repeated field, packed (@reader is wire_message() of it) or not? */
static inline bool wire_next_number(const struct wire_field *field, struct reader *reader,
				    bool *is_first, uint64_t *ret_value)
{
	bool was_first = *is_first;

	*is_first = false;
	if (field->type == WIRE_VARINT || field->type == WIRE_FIXED64) {
		reader->failed = false;
		*ret_value = field->value;
		return was_first;
	}
	if (reader->failed || reader->at == reader->end)
		return false;
	*ret_value = wire_varint(reader);
	return !reader->failed;
}
