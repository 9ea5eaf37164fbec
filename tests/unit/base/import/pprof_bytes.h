// SPDX-License-Identifier: Apache-2.0
// Writes messages of profile.proto field by field, sound ones and others, so that our reader is not tested by our writer.
#pragma once

#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"

static inline void put_number(struct buffer *bytes, uint32_t field, uint64_t value)
{
	buffer_append_varint(bytes, field << 3);
	buffer_append_varint(bytes, value);
}

static inline void put_bytes(struct buffer *bytes, uint32_t field, const void *value, size_t size)
{
	buffer_append_varint(bytes, field << 3 | 2);
	buffer_append_varint(bytes, size);
	buffer_append(bytes, value, size);
}

static inline void put_text(struct buffer *bytes, uint32_t field, const char *text)
{
	put_bytes(bytes, field, text, strlen(text));
}

/** A message of numbers: pairs of field and value, ended by a field 0. */
static inline void put_message(struct buffer *bytes, uint32_t field, const uint64_t *pairs)
{
	_cleanup_(buffer_deinit) struct buffer message = { 0 };

	for (; pairs[0]; pairs += 2)
		put_number(&message, (uint32_t)pairs[0], pairs[1]);
	put_bytes(bytes, field, message.bytes, message.size);
}

#define PUT(bytes, field, ...) put_message(bytes, field, (const uint64_t[]){ __VA_ARGS__, 0, 0 })
