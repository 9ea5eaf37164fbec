// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

static bool is_follower(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

// The size of the valid character at the start of @text, or 0 (Unicode standard, table 3-7).
static size_t character_size(const unsigned char *text, size_t size)
{
	unsigned char lead = text[0];
	unsigned char least = 0x80, most = 0xbf; // of the second byte
	size_t followers;

	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		followers = 1;
	else if (lead >= 0xe0 && lead <= 0xef)
		followers = 2;
	else if (lead >= 0xf0 && lead <= 0xf4)
		followers = 3;
	else
		return 0;
	if (size <= followers)
		return 0;

	if (lead == 0xe0 || lead == 0xf0) // below: an overlong form
		least = lead == 0xe0 ? 0xa0 : 0x90;
	if (lead == 0xed || lead == 0xf4) // above: a surrogate, or beyond U+10FFFF
		most = lead == 0xed ? 0x9f : 0x8f;
	if (text[1] < least || text[1] > most)
		return 0;
	for (size_t i = 2; i <= followers; i++) {
		if (!is_follower(text[i]))
			return 0;
	}
	return followers + 1;
}

// The size of the valid characters at the start of @text.
static size_t valid_size(const unsigned char *text, size_t size)
{
	size_t at = 0;

	while (at < size) {
		uint64_t word;

		if (size - at >= sizeof(word)) { // nearly all names are ASCII: eight bytes at once
			memcpy(&word, text + at, sizeof(word));
			if ((word & 0x8080808080808080ULL) == 0) {
				at += sizeof(word);
				continue;
			}
		}
		size_t step = character_size(text + at, size - at);
		if (step == 0)
			break;
		at += step;
	}
	return at;
}

bool utf8_is_valid(const char *text, size_t size)
{
	return valid_size((const unsigned char *)text, size) == size;
}

void utf8_repair(char *text, size_t size)
{
	size_t at = 0;

	while ((at += valid_size((unsigned char *)text + at, size - at)) < size)
		text[at] = '?';
}

void utf8_clean(char *text)
{
	utf8_repair(text, strlen(text));
	for (unsigned char *at = (unsigned char *)text; *at; at++) {
		if (*at < 0x20 || *at == 0x7f)
			*at = '?';
		else if (at[0] == 0xc2 && at[1] < 0xa0) // U+0080 to U+009F
			at[0] = at[1] = '?';
	}
}

size_t utf8_cut(const char *text, size_t size, size_t size_max)
{
	if (size <= size_max)
		return size;

	size_t cut = size_max;
	while (cut > 0 && size_max - cut < 3 && is_follower((unsigned char)text[cut]))
		cut--;
	return cut;
}
