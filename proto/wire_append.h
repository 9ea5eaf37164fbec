// SPDX-License-Identifier: Apache-2.0
// Writing protobuf's wire format, the reverse of base/import/wire.h: for messages whose size protobuf-c's trees of pointers would
// multiply. Defaults are left out, as protobuf does.
#pragma once

#include <endian.h>
#include <string.h>

#include "base/buffer.h"
#include "base/import/wire.h"

static inline void wire_append_key(struct buffer *buffer, uint32_t field, enum wire_type type)
{
	buffer_append_varint(buffer, (uint64_t)field << 3 | type);
}

static inline void wire_append_number(struct buffer *buffer, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	wire_append_key(buffer, field, WIRE_VARINT);
	buffer_append_varint(buffer, value);
}

static inline void wire_append_fixed64(struct buffer *buffer, uint32_t field, uint64_t value)
{
	uint64_t bytes = htole64(value);

	if (!value)
		return;
	wire_append_key(buffer, field, WIRE_FIXED64);
	buffer_append(buffer, &bytes, sizeof(bytes));
}

/** Also of no bytes: an entry of a table. */
static inline void wire_append_bytes(struct buffer *buffer, uint32_t field, const void *bytes,
				     size_t size)
{
	wire_append_key(buffer, field, WIRE_BYTES);
	buffer_append_varint(buffer, size);
	buffer_append(buffer, bytes, size);
}

static inline void wire_append_text(struct buffer *buffer, uint32_t field, const char *text)
{
	wire_append_bytes(buffer, field, text, strlen(text));
}

/** A message, or a packed repeated field. Its failure is @buffer's. */
static inline void wire_append_message(struct buffer *buffer, uint32_t field,
				       const struct buffer *message)
{
	wire_append_bytes(buffer, field, message->bytes, message->size);
	if (message->rc && !buffer->rc)
		buffer->rc = message->rc;
}

/** A list of one entry's number; of none if it is 0. */
static inline void wire_append_index(struct buffer *buffer, uint32_t field, uint32_t number)
{
	uint32_t size = 1;

	if (!number)
		return;
	for (uint32_t rest = number >> 7; rest; rest >>= 7)
		size++;
	wire_append_key(buffer, field, WIRE_BYTES);
	buffer_append_varint(buffer, size);
	buffer_append_varint(buffer, number);
}
