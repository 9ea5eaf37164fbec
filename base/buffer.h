// SPDX-License-Identifier: Apache-2.0
// A growing run of bytes with a limit. A run of writes is checked once at the end: the first
// failure sticks in `rc` and later writes do nothing.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_budget.h"

struct buffer {
	uint8_t *bytes;
	size_t size;     // bytes written
	size_t capacity; // bytes allocated
	size_t size_max; // 0: BUFFER_SIZE_MAX
	int rc;          // 0, -ENOMEM, -EFBIG once size_max is hit, -EDQUOT once the budget is
	struct byte_budget *budget; // that the allocated bytes are taken from; NULL: none
};

#define BUFFER_SIZE_MAX ((size_t)1 << 30) // no message, file or page of ours is larger

/** A zeroed struct is a valid empty buffer; deinit leaves it so, but for its size_max and its budget. */
void buffer_deinit(struct buffer *buffer);
/** Clear the content and the error, keep the memory. */
void buffer_clear(struct buffer *buffer);

void buffer_append(struct buffer *buffer, const void *bytes, size_t size);
void buffer_append_string(struct buffer *buffer, const char *string);
void buffer_append_byte(struct buffer *buffer, uint8_t byte);
void buffer_printf(struct buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** Unsigned LEB128, as protobuf and DWARF write it. */
void buffer_append_varint(struct buffer *buffer, uint64_t value);
/** Zig-zag, then LEB128: small magnitudes of either sign stay short. */
void buffer_append_svarint(struct buffer *buffer, int64_t value);

/** Room for @size bytes at the end, counted as written; NULL after a failure. */
void *buffer_extend(struct buffer *buffer, size_t size);

/** The bytes as a C string: a NUL is placed after them, not counted. "" after a failure. */
const char *buffer_string(struct buffer *buffer);

/** A cursor over hostile bytes: a read past the end fails and sticks. */
struct reader {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

/** Reads return 0 once failed. */
uint64_t reader_varint(struct reader *reader);
int64_t reader_svarint(struct reader *reader);
/** @size bytes in place, or NULL and failed. */
const void *reader_bytes(struct reader *reader, size_t size);
static inline size_t reader_left(const struct reader *reader)
{
	return reader->failed ? 0 : (size_t)(reader->end - reader->at);
}
