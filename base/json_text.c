// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.h"

#include <string.h>

#include "base/utf8.h"

enum { DIGITS_MAX = 20 }; // of 2^64

static void append_escaped(struct buffer *buffer, unsigned char byte)
{
	if (byte == '"' || byte == '\\') {
		buffer_append_byte(buffer, '\\');
		buffer_append_byte(buffer, byte);
	} else {
		buffer_printf(buffer, "\\u%04x", byte);
	}
}

/** The size of the non-ASCII character at @text, 0 if it is not valid UTF-8. */
static size_t character_size(const char *text)
{
	unsigned char lead = (unsigned char)*text;
	size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

	return strnlen(text, size) == size && utf8_is_valid(text, size) ? size : 0;
}

void json_append_string(struct buffer *buffer, const char *string)
{
	buffer_append_byte(buffer, '"');
	while (*string) {
		// Copy a run of plain characters at once.
		size_t plain = 0;
		while ((unsigned char)string[plain] >= ' ' && (unsigned char)string[plain] < 0x7f &&
		       string[plain] != '"' && string[plain] != '\\')
			plain++;
		buffer_append(buffer, string, plain);
		string += plain;
		if (!*string)
			break;
		if ((unsigned char)*string < 0x80) {
			append_escaped(buffer, (unsigned char)*string++);
			continue;
		}
		size_t size = character_size(string);
		if (size)
			buffer_append(buffer, string, size);
		else
			buffer_append_string(buffer, "\xef\xbf\xbd");
		string += size ? size : 1;
	}
	buffer_append_byte(buffer, '"');
}

void json_append_uint(struct buffer *buffer, uint64_t number)
{
	char digits[DIGITS_MAX];
	char *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	buffer_append(buffer, at, (size_t)(digits + sizeof(digits) - at));
}

void json_append_int(struct buffer *buffer, int64_t number)
{
	if (number < 0)
		buffer_append_byte(buffer, '-');
	json_append_uint(buffer, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void json_append_ints(struct buffer *buffer, const int64_t *numbers, uint32_t count)
{
	buffer_append_byte(buffer, '[');
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			buffer_append_byte(buffer, ',');
		json_append_int(buffer, numbers[i]);
	}
	buffer_append_byte(buffer, ']');
}
