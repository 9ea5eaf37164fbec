// SPDX-License-Identifier: Apache-2.0
#include "base/import/json_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { NUMBER_BYTES_MAX = 64 };

static bool fail(struct json_reader *reader)
{
	reader->failed = true;
	return false;
}

static void skip_blanks(struct json_reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
					    *reader->at == '\t' || *reader->at == '\r'))
		reader->at++;
}

/** The next byte after blanks; '\0' at the end. */
static char next_byte(struct json_reader *reader)
{
	skip_blanks(reader);
	return reader->failed || reader->at == reader->end ? '\0' : *reader->at;
}

enum json_kind json_peek(struct json_reader *reader)
{
	char byte = next_byte(reader);

	if (byte == '{')
		return JSON_IS_OBJECT;
	if (byte == '[')
		return JSON_IS_ARRAY;
	if (byte == '"')
		return JSON_IS_STRING;
	if (byte == '-' || (byte >= '0' && byte <= '9'))
		return JSON_IS_NUMBER;
	return byte == 't' || byte == 'f' || byte == 'n' ? JSON_IS_WORD : JSON_NONE;
}

bool json_enter(struct json_reader *reader, char bracket)
{
	if (next_byte(reader) != bracket)
		return fail(reader);
	reader->at++;
	return true;
}

/** Is there another one before @bracket, which ends them? */
static bool has_next(struct json_reader *reader, bool *is_first, char bracket)
{
	bool was_first = *is_first;
	char byte = next_byte(reader);

	*is_first = false;
	if (byte == bracket) {
		reader->at++;
		return false;
	}
	if (was_first)
		return !reader->failed;
	if (byte != ',')
		return fail(reader);
	reader->at++;
	return true;
}

bool json_next_member(struct json_reader *reader, bool *is_first, struct json_text *ret_name)
{
	if (!has_next(reader, is_first, '}') || !json_read_string(reader, ret_name))
		return false;
	return json_enter(reader, ':');
}

bool json_next_item(struct json_reader *reader, bool *is_first)
{
	return has_next(reader, is_first, ']');
}

bool json_read_string(struct json_reader *reader, struct json_text *ret_text)
{
	if (!json_enter(reader, '"'))
		return false;
	const char *begin = reader->at;
	while (reader->at < reader->end && *reader->at != '"')
		reader->at += *reader->at == '\\' ? 2 : 1;
	if (reader->at >= reader->end) {
		reader->at = reader->end;
		return fail(reader);
	}
	*ret_text = (struct json_text){ begin, (size_t)(reader->at - begin) };
	reader->at++;
	return true;
}

/** The text of a number, or of a string with one, as a C string. */
static bool read_number(struct json_reader *reader, char ret_text[NUMBER_BYTES_MAX])
{
	struct json_text text;

	if (json_peek(reader) == JSON_IS_STRING) {
		if (!json_read_string(reader, &text))
			return false;
	} else if (json_peek(reader) == JSON_IS_NUMBER) {
		text.at = reader->at;
		while (reader->at < reader->end && *reader->at &&
		       strchr("0123456789+-.eE", *reader->at))
			reader->at++;
		text.size = (size_t)(reader->at - text.at);
	} else {
		json_skip(reader);
		return false;
	}
	if (!text.size || text.size >= NUMBER_BYTES_MAX)
		return false;
	memcpy(ret_text, text.at, text.size);
	ret_text[text.size] = '\0';
	return true;
}

bool json_read_double(struct json_reader *reader, double *ret_value)
{
	char text[NUMBER_BYTES_MAX], *end;

	if (!read_number(reader, text) || !strchr("-0123456789", *text))
		return false;
	double value = strtod(text, &end);
	if (*end || !isfinite(value))
		return false;
	*ret_value = value;
	return true;
}

bool json_read_integer(struct json_reader *reader, int64_t *ret_value)
{
	char text[NUMBER_BYTES_MAX], *end;

	if (!read_number(reader, text) || !strchr("-0123456789", *text))
		return false;
	errno = 0;
	*ret_value = *text == '-' ? strtoll(text, &end, 10) : (int64_t)strtoull(text, &end, 10);
	return !errno && !*end && end > text + (*text == '-');
}

/** Digits, a point and up to 9 digits: @scale is at most 10^9. False: something else, as an exponent. */
static bool scale_decimal(const char *text, int64_t scale, int64_t *ret_value)
{
	bool is_negative = *text == '-';
	__int128 value = 0, fraction = 0, unit = 1;

	text += is_negative;
	if (!*text || !strchr("0123456789", *text))
		return false;
	for (; *text >= '0' && *text <= '9'; text++) {
		value = value * 10 + (*text - '0');
		if (value > INT64_MAX)
			return false;
	}
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++) {
			if (unit >= 1000000000)
				continue;
			fraction = fraction * 10 + (*text - '0');
			unit *= 10;
		}
	value = value * scale + (fraction * scale + unit / 2) / unit;
	if (*text || value > INT64_MAX)
		return false;
	*ret_value = is_negative ? -(int64_t)value : (int64_t)value;
	return true;
}

bool json_read_scaled(struct json_reader *reader, int64_t scale, int64_t *ret_value)
{
	char text[NUMBER_BYTES_MAX], *end;

	if (!read_number(reader, text))
		return false;
	if (scale_decimal(text, scale, ret_value))
		return true;
	if (!strchr("-0123456789", *text))
		return false;
	double value = strtod(text, &end) * (double)scale;
	if (*end || !(fabs(value) < 9e18))
		return false;
	*ret_value = (int64_t)llround(value);
	return true;
}

/** true, false or null. */
static char read_word(struct json_reader *reader)
{
	static const char *const words[] = { "true", "false", "null" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t size = strlen(words[i]);

		if ((size_t)(reader->end - reader->at) >= size &&
		    memcmp(reader->at, words[i], size) == 0) {
			reader->at += size;
			return *words[i];
		}
	}
	fail(reader);
	return '\0';
}

bool json_read_bool(struct json_reader *reader)
{
	if (json_peek(reader) == JSON_IS_WORD)
		return read_word(reader) == 't';
	json_skip(reader);
	return false;
}

static void skip_scalar(struct json_reader *reader, enum json_kind kind)
{
	struct json_text text;

	if (kind == JSON_IS_STRING) {
		json_read_string(reader, &text);
	} else if (kind == JSON_IS_NUMBER) {
		while (reader->at < reader->end && *reader->at &&
		       strchr("0123456789+-.eE", *reader->at))
			reader->at++;
	} else if (kind == JSON_IS_WORD) {
		read_word(reader);
	} else {
		fail(reader);
	}
}

// Without recursion: commas and colons are not checked inside of what nobody reads, brackets are.
void json_skip(struct json_reader *reader)
{
	char closing[JSON_DEPTH_MAX];
	size_t depth = 0;

	do {
		char byte = next_byte(reader);

		if (byte == '{' || byte == '[') {
			if (depth == JSON_DEPTH_MAX) {
				fail(reader);
				return;
			}
			closing[depth++] = byte == '{' ? '}' : ']';
			reader->at++;
		} else if (depth && byte == closing[depth - 1]) {
			depth--;
			reader->at++;
		} else if (depth && (byte == ',' || byte == ':')) {
			reader->at++;
		} else {
			skip_scalar(reader, json_peek(reader));
		}
	} while (depth && !reader->failed);
}

static bool read_hex(const char *at, const char *end, uint32_t *ret_code)
{
	uint32_t code = 0;

	if (end - at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = text_hex_digit(at[i]);

		if (digit < 0)
			return false;
		code = code << 4 | (uint32_t)digit;
	}
	*ret_code = code;
	return true;
}

static void append_code(struct buffer *buffer, uint32_t code)
{
	if (code < 0x80) {
		buffer_append_byte(buffer, (uint8_t)code);
		return;
	}
	if (code >= 0x10000) {
		buffer_append_byte(buffer, (uint8_t)(0xf0 | code >> 18));
		buffer_append_byte(buffer, (uint8_t)(0x80 | (code >> 12 & 0x3f)));
	} else if (code >= 0x800) {
		buffer_append_byte(buffer, (uint8_t)(0xe0 | code >> 12));
	} else {
		buffer_append_byte(buffer, (uint8_t)(0xc0 | code >> 6));
	}
	if (code >= 0x800)
		buffer_append_byte(buffer, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
	buffer_append_byte(buffer, (uint8_t)(0x80 | (code & 0x3f)));
}

/** \uXXXX at @at, of which a high surrogate is followed by a low one. Returns what is behind it. */
static const char *append_unicode(struct buffer *buffer, const char *at, const char *end)
{
	uint32_t code, low;

	if (!read_hex(at, end, &code)) {
		buffer_append_byte(buffer, '?');
		return at;
	}
	at += 4;
	bool is_high = code >= 0xd800 && code < 0xdc00;
	if (is_high && end - at >= 6 && at[0] == '\\' && at[1] == 'u' &&
	    read_hex(at + 2, end, &low) && low >= 0xdc00 && low < 0xe000) {
		code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		at += 6;
	}
	append_code(buffer, code >= 0xd800 && code < 0xe000 ? '?' : code);
	return at;
}

void json_append_unescaped(struct buffer *buffer, struct json_text text)
{
	static const char escapes[] = "bfnrt", meanings[] = "\b\f\n\r\t";

	if (!text.size)
		return; // it may have no address
	const char *at = text.at, *end = at + text.size;

	while (at < end) {
		const char *escape = memchr(at, '\\', (size_t)(end - at));
		const char *stop = escape ? escape : end;

		buffer_append(buffer, at, (size_t)(stop - at));
		at = stop;
		if (!escape || end - escape < 2)
			break;
		const char *which = strchr(escapes, escape[1]);
		at = escape + 2;
		if (escape[1] == 'u')
			at = append_unicode(buffer, at, end);
		else
			buffer_append_byte(
				buffer,
				(uint8_t)(which && *which ? meanings[which - escapes] : escape[1]));
	}
}

bool json_text_is(struct json_text text, const char *wanted)
{
	return text.size == strlen(wanted) && memcmp(text.at, wanted, text.size) == 0;
}
