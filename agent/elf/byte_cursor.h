// SPDX-License-Identifier: Apache-2.0
// Reads hostile bytes: past the end it reads zero and marks itself broken, so that a parser checks once per step.
// Little-endian, as all supported machines.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Zero-initialized it is empty. */
struct byte_cursor {
	const uint8_t *at;
	const uint8_t *limit;
	bool is_broken; // something past the end was read
};

static inline struct byte_cursor byte_cursor_over(const void *bytes, size_t size)
{
	return (struct byte_cursor){ .at = bytes, .limit = (const uint8_t *)bytes + size };
}

static inline size_t byte_cursor_left(const struct byte_cursor *cursor)
{
	return (size_t)(cursor->limit - cursor->at);
}

/** The next @size bytes, or NULL. */
static inline const uint8_t *byte_cursor_take(struct byte_cursor *cursor, uint64_t size)
{
	const uint8_t *bytes = cursor->at;

	if (size > byte_cursor_left(cursor)) {
		cursor->is_broken = true;
		cursor->at = cursor->limit;
		return NULL;
	}
	cursor->at += size;
	return bytes;
}

/** An unsigned number of @size bytes, 8 at most. */
static inline uint64_t byte_cursor_number(struct byte_cursor *cursor, size_t size)
{
	const uint8_t *bytes = byte_cursor_take(cursor, size);
	uint64_t number = 0;

	if (bytes)
		memcpy(&number, bytes, size);
	return number;
}

/** The same, signed. */
static inline int64_t byte_cursor_signed(struct byte_cursor *cursor, size_t size)
{
	uint32_t unused = 64 - 8 * (uint32_t)size;

	return (int64_t)(byte_cursor_number(cursor, size) << unused) >> unused;
}

static inline uint8_t byte_cursor_byte(struct byte_cursor *cursor)
{
	if (cursor->at == cursor->limit) {
		cursor->is_broken = true;
		return 0;
	}
	return *cursor->at++;
}

/** ULEB128. More than 64 bits break the cursor. */
static inline uint64_t byte_cursor_uleb(struct byte_cursor *cursor)
{
	uint64_t number = 0;
	uint32_t shift = 0;
	uint8_t byte;

	do {
		byte = byte_cursor_byte(cursor);
		if (shift < 64)
			number |= (uint64_t)(byte & 0x7f) << shift;
		if ((shift == 63 && (byte & 0x7e)) || (shift > 63 && (byte & 0x7f)))
			cursor->is_broken = true;
		shift += 7;
	} while (byte & 0x80);
	return number;
}

/** SLEB128. Bits beyond 64 are dropped. */
static inline int64_t byte_cursor_sleb(struct byte_cursor *cursor)
{
	uint64_t number = 0;
	uint32_t shift = 0;
	uint8_t byte;

	do {
		byte = byte_cursor_byte(cursor);
		if (shift < 64)
			number |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		number |= ~0ULL << shift;
	return (int64_t)number;
}
