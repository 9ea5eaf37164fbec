// SPDX-License-Identifier: Apache-2.0
// ClickHouse's format RowBinary: numbers little-endian in their width, a length as a varint before the bytes of a
// string and before the items of an array. It is chosen because nothing in it is escaped, and each value is read in place.
// Bytes of a server are hostile: reads are those of struct reader, which fail at the end and stay failed.
#pragma once

#include <string.h>

#include "base/buffer.h"
#include "base/id128.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "RowBinary is written and read as little-endian memory"
#endif

static inline void row_put_u8(struct buffer *row, uint8_t value)
{
	buffer_append(row, &value, sizeof(value));
}

static inline void row_put_u16(struct buffer *row, uint16_t value)
{
	buffer_append(row, &value, sizeof(value));
}

static inline void row_put_u32(struct buffer *row, uint32_t value)
{
	buffer_append(row, &value, sizeof(value));
}

static inline void row_put_u64(struct buffer *row, uint64_t value)
{
	buffer_append(row, &value, sizeof(value));
}

/** A FixedString(16). */
static inline void row_put_id(struct buffer *row, struct id128 id)
{
	uint8_t bytes[ID128_BYTES];

	id128_encode(id, bytes);
	buffer_append(row, bytes, sizeof(bytes));
}

static inline void row_put_string(struct buffer *row, const char *string)
{
	size_t size = strlen(string);

	buffer_append_varint(row, size);
	buffer_append(row, string, size);
}

static inline uint8_t row_u8(struct reader *reader)
{
	const uint8_t *bytes = reader_bytes(reader, 1);

	return bytes ? *bytes : 0;
}

static inline uint32_t row_u32(struct reader *reader)
{
	const void *bytes = reader_bytes(reader, sizeof(uint32_t));
	uint32_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline uint64_t row_u64(struct reader *reader)
{
	const void *bytes = reader_bytes(reader, sizeof(uint64_t));
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return value;
}

static inline struct id128 row_id(struct reader *reader)
{
	const void *bytes = reader_bytes(reader, ID128_BYTES);

	return bytes ? id128_decode(bytes) : (struct id128){ 0 };
}

/** A string in place, without a NUL. */
struct row_string {
	const char *at;
	size_t size;
};

static inline struct row_string row_string(struct reader *reader)
{
	uint64_t size = reader_varint(reader);
	const void *at = size <= reader_left(reader) ? reader_bytes(reader, size) : NULL;

	if (!at)
		reader->failed = true;
	return (struct row_string){ at, at ? size : 0 };
}

/** The items of an array of fixed width, in place (not aligned), and how many. */
static inline const uint8_t *row_array(struct reader *reader, size_t item_size, uint32_t *ret_count)
{
	uint64_t count = reader_varint(reader);
	const uint8_t *items = NULL;

	if (count <= reader_left(reader) / item_size)
		items = reader_bytes(reader, count * item_size);
	if (!items)
		reader->failed = true;
	*ret_count = items ? (uint32_t)count : 0;
	return items;
}

static inline uint32_t row_array_u32(const uint8_t *items, uint32_t at)
{
	uint32_t value;

	memcpy(&value, items + (size_t)at * sizeof(value), sizeof(value));
	return value;
}

static inline int64_t row_array_i64(const uint8_t *items, uint32_t at)
{
	int64_t value;

	memcpy(&value, items + (size_t)at * sizeof(value), sizeof(value));
	return value;
}
