// SPDX-License-Identifier: Apache-2.0
// Identities of locations, stacks and series: hashes over fixed records of big-endian numbers and
// of hashes of strings, so that every host computes the same and no concatenation is ambiguous.
#include "base/profile/profile.h"

#include <endian.h>
#include <string.h>

// The first byte of each record, so that no identity of one sort equals one of another.
enum identity_sort {
	IDENTITY_OFFSET = 1,
	IDENTITY_LINE = 2,
	IDENTITY_STACK = 3,
	IDENTITY_SERIES = 4,
};

static void encode_u64(uint64_t value, uint8_t ret_bytes[8])
{
	for (int i = 0; i < 8; i++)
		ret_bytes[i] = (uint8_t)(value >> (56 - 8 * i));
}

static void encode_string(const char *string, uint8_t ret_bytes[ID128_BYTES])
{
	id128_encode(id128_of(string, strlen(string)), ret_bytes);
}

struct id128 location_id_of_offset(enum frame_kind kind, const char *module_id, uint64_t offset)
{
	uint8_t record[2 + ID128_BYTES + 8] = { IDENTITY_OFFSET, (uint8_t)kind };

	encode_string(module_id, record + 2);
	encode_u64(offset, record + 2 + ID128_BYTES);
	return id128_of(record, sizeof(record));
}

struct id128 location_id_of_line(enum frame_kind kind, const char *name, const char *file,
				 uint32_t line)
{
	uint8_t record[2 + 2 * ID128_BYTES + 8] = { IDENTITY_LINE, (uint8_t)kind };

	encode_string(name, record + 2);
	encode_string(file, record + 2 + ID128_BYTES);
	encode_u64(line, record + 2 + 2 * ID128_BYTES);
	return id128_of(record, sizeof(record));
}

/** As id128_encode(), for loops over a stack's frames. */
static inline void encode_id(struct id128 id, uint8_t *bytes)
{
	const uint64_t words[] = { htobe64(id.high), htobe64(id.low) };

	memcpy(bytes, words, sizeof(words));
}

struct id128 stack_id_of(const struct id128 *location_ids, uint32_t count, enum stack_end end)
{
	uint8_t record[2 + STACK_FRAMES_MAX * ID128_BYTES];
	size_t size = 2;

	record[0] = IDENTITY_STACK;
	record[1] = (uint8_t)end;
	for (uint32_t i = 0; i < count && i < STACK_FRAMES_MAX; i++, size += ID128_BYTES)
		encode_id(location_ids[i], record + size);
	return id128_of(record, size);
}

struct id128 series_id_of(const struct labels *labels, const char *type)
{
	uint8_t record[1 + 2 * ID128_BYTES] = { IDENTITY_SERIES };

	id128_encode(labels_id(labels), record + 1);
	encode_string(type, record + 1 + ID128_BYTES);
	return id128_of(record, sizeof(record));
}
