// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_string.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	MINOR_WITHOUT_WSTR = 12, // PEP 623 removed the wchar_t pointer and length from the head
	UTF8_CHARACTER_BYTES_MAX = 4,
	CODE_POINT_MAX = 0x10ffff,
};

/* Fields of the state word. */
enum {
	STATE_INTERNED_BITS = 2,
	STATE_INTERNED_BYTE_BITS = 8, // free-threaded 3.14: a byte of its own
	STATE_KIND_MASK = 7,          // bytes per character
	STATE_COMPACT = 1 << 3,       // the characters follow the head
	STATE_ASCII = 1 << 4,         // with STATE_COMPACT: the head is the shorter one
};

uint32_t python_object_head_bytes(const struct python_offsets *offsets)
{
	return offsets->free_threaded ? 32 : 16;
}

// An interned byte is at most 3: then the kind at the old position reads as 0, which is none.
static uint32_t state_bits(uint32_t state)
{
	if (state >> STATE_INTERNED_BITS & STATE_KIND_MASK)
		return state >> STATE_INTERNED_BITS;
	return state >> STATE_INTERNED_BYTE_BITS;
}

// Head, length, hash, state and padding; up to 3.11 a wchar_t pointer.
uint32_t python_string_head_bytes(const struct python_offsets *offsets)
{
	return python_object_head_bytes(offsets) + (offsets->minor < MINOR_WITHOUT_WSTR ? 32 : 24);
}

// Not compact ASCII: also the size in UTF-8 and a pointer to that; up to 3.11 the size in wchar_t.
static uint32_t long_head_bytes(const struct python_offsets *offsets)
{
	return python_string_head_bytes(offsets) + (offsets->minor < MINOR_WITHOUT_WSTR ? 24 : 16);
}

int python_string_find(const struct python_offsets *offsets, const uint8_t *object,
		       uint32_t size_max, struct python_string *ret_text, uint32_t *ret_offset)
{
	uint32_t object_bytes = python_object_head_bytes(offsets);
	struct python_string text = { 0 };
	uint64_t count;
	uint32_t state;

	memcpy(&count, object + object_bytes, sizeof(count));
	memcpy(&state, object + object_bytes + 16, sizeof(state));
	uint32_t bits = state_bits(state), kind = bits & STATE_KIND_MASK;

	if ((kind != 1 && kind != 2 && kind != 4) || (bits & STATE_ASCII && kind != 1))
		return -EBADMSG;
	text.character_bytes = kind;
	text.count = count < size_max ? (uint32_t)count : size_max;
	text.is_indirect = !(bits & STATE_COMPACT);
	*ret_offset = bits & STATE_ASCII && !text.is_indirect ? python_string_head_bytes(offsets)
							      : long_head_bytes(offsets);
	*ret_text = text;
	return 0;
}

// ---- characters -----------------------------------------------------------------------------

static uint32_t character_at(const struct python_string *text, const uint8_t *characters,
			     uint32_t at)
{
	uint32_t wide;
	uint16_t half;

	switch (text->character_bytes) {
	case 1:
		return characters[at];
	case 2:
		memcpy(&half, characters + at * 2UL, sizeof(half));
		return half;
	}
	memcpy(&wide, characters + at * 4UL, sizeof(wide));
	return wide;
}

static bool is_surrogate(uint32_t character)
{
	return character >= 0xd800 && character <= 0xdfff;
}

// Returns the bytes written, UTF8_CHARACTER_BYTES_MAX at most.
static uint32_t encode_utf8(uint32_t character, char *to)
{
	if (!character || is_surrogate(character) || character > CODE_POINT_MAX)
		character = '?';
	if (character < 0x80) {
		to[0] = (char)character;
		return 1;
	}
	if (character < 0x800) {
		to[0] = (char)(0xc0 | character >> 6);
		to[1] = (char)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		to[0] = (char)(0xe0 | character >> 12);
		to[1] = (char)(0x80 | (character >> 6 & 0x3f));
		to[2] = (char)(0x80 | (character & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | character >> 18);
	to[1] = (char)(0x80 | (character >> 12 & 0x3f));
	to[2] = (char)(0x80 | (character >> 6 & 0x3f));
	to[3] = (char)(0x80 | (character & 0x3f));
	return 4;
}

static uint32_t utf8_size(const struct python_string *text, const uint8_t *characters)
{
	char encoded[UTF8_CHARACTER_BYTES_MAX];
	uint32_t size = 0;

	for (uint32_t i = 0; i < text->count; i++)
		size += encode_utf8(character_at(text, characters, i), encoded);
	return size;
}

char *python_string_decode(const struct python_string *text, const uint8_t *characters,
			   uint32_t size_max)
{
	uint32_t size = utf8_size(text, characters), used = 0;

	if (size > size_max)
		size = size_max;
	char *utf8 = malloc(size + 1);
	if (!utf8)
		return NULL;
	for (uint32_t i = 0; i < text->count; i++) {
		char encoded[UTF8_CHARACTER_BYTES_MAX];
		uint32_t bytes = encode_utf8(character_at(text, characters, i), encoded);

		if (bytes > size - used)
			break;
		memcpy(utf8 + used, encoded, bytes);
		used += bytes;
	}
	utf8[used] = 0;
	return utf8;
}
