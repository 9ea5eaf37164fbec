// SPDX-License-Identifier: Apache-2.0
#include "base/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_account.h"

enum {
	BUFFER_CAPACITY_MIN = 256,
	VARINT_BYTES_MAX = 10, // 64 bits in groups of 7
};

/** What has a budget of its own, and may outlive the work that fills it, is no part of that work's account. */
static void *change_bytes(const struct buffer *buffer, size_t capacity)
{
	struct memory_account *paused = buffer->budget ? memory_account_pause() : NULL;
	void *bytes = NULL;

	if (capacity)
		bytes = realloc(buffer->bytes, capacity);
	else
		free(buffer->bytes);
	if (buffer->budget)
		memory_account_resume(paused);
	return bytes;
}

void buffer_deinit(struct buffer *buffer)
{
	change_bytes(buffer, 0);
	byte_budget_give(buffer->budget, buffer->capacity);
	*buffer = (struct buffer){ .size_max = buffer->size_max, .budget = buffer->budget };
}

void buffer_clear(struct buffer *buffer)
{
	buffer->size = 0;
	buffer->rc = 0;
}

// Make room for @size more bytes and a NUL after them, which is never counted.
static bool buffer_reserve(struct buffer *buffer, size_t size)
{
	size_t size_max = buffer->size_max ? buffer->size_max : BUFFER_SIZE_MAX;

	if (buffer->rc)
		return false;
	if (buffer->size > size_max || size > size_max - buffer->size) {
		buffer->rc = -EFBIG;
		return false;
	}

	size_t needed = buffer->size + size + 1;
	if (needed <= buffer->capacity)
		return true;

	size_t capacity = buffer->capacity ? buffer->capacity : BUFFER_CAPACITY_MIN;
	while (capacity < needed)
		capacity *= 2; // cannot wrap: needed is at most size_max + 1
	if (capacity > size_max + 1)
		capacity = size_max + 1;
	// Twice the bytes while realloc() copies: the old ones stay taken until then.
	if (!byte_budget_take(buffer->budget, capacity)) {
		buffer->rc = -EDQUOT;
		return false;
	}
	uint8_t *bytes = change_bytes(buffer, capacity);
	byte_budget_give(buffer->budget, bytes ? buffer->capacity : capacity);
	if (!bytes) {
		buffer->rc = -ENOMEM;
		return false;
	}
	buffer->bytes = bytes;
	buffer->capacity = capacity;
	return true;
}

void *buffer_extend(struct buffer *buffer, size_t size)
{
	if (!buffer_reserve(buffer, size))
		return NULL;

	void *room = buffer->bytes + buffer->size;
	buffer->size += size;
	return room;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t size)
{
	if (size == 0) // memcpy() wants a pointer even for nothing
		return;

	void *room = buffer_extend(buffer, size);
	if (room)
		memcpy(room, bytes, size);
}

void buffer_append_string(struct buffer *buffer, const char *string)
{
	buffer_append(buffer, string, strlen(string));
}

void buffer_append_byte(struct buffer *buffer, uint8_t byte)
{
	buffer_append(buffer, &byte, 1);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int size = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (size < 0) {
		buffer->rc = buffer->rc ? buffer->rc : -EINVAL;
		return;
	}

	char *room = buffer_extend(buffer, (size_t)size);
	if (!room)
		return;
	va_start(args, format);
	vsnprintf(room, (size_t)size + 1, format, args); // the NUL falls on the reserved byte
	va_end(args);
}

void buffer_append_varint(struct buffer *buffer, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES_MAX];
	size_t size = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[size++] = (uint8_t)(value | 0x80);
	bytes[size++] = (uint8_t)value;
	buffer_append(buffer, bytes, size);
}

void buffer_append_svarint(struct buffer *buffer, int64_t value)
{
	uint64_t sign = value < 0 ? UINT64_MAX : 0;

	buffer_append_varint(buffer, ((uint64_t)value << 1) ^ sign);
}

const char *buffer_string(struct buffer *buffer)
{
	if (!buffer_reserve(buffer, 0))
		return "";
	buffer->bytes[buffer->size] = 0;
	return (const char *)buffer->bytes;
}

uint64_t reader_varint(struct reader *reader)
{
	uint64_t value = 0;

	for (int i = 0; i < VARINT_BYTES_MAX && !reader->failed; i++) {
		if (reader->at == reader->end)
			break;

		uint8_t byte = *reader->at++;
		if (i == VARINT_BYTES_MAX - 1 && byte > 1) // more than 64 bits
			break;
		value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80)
			return value;
	}
	reader->failed = true;
	return 0;
}

int64_t reader_svarint(struct reader *reader)
{
	uint64_t value = reader_varint(reader);

	return (int64_t)((value >> 1) ^ (value & 1 ? UINT64_MAX : 0));
}

const void *reader_bytes(struct reader *reader, size_t size)
{
	if (reader->failed || size > (size_t)(reader->end - reader->at)) {
		reader->failed = true;
		return NULL;
	}

	const void *bytes = reader->at;
	reader->at += size;
	return bytes;
}
