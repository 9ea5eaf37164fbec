// SPDX-License-Identifier: Apache-2.0
#include "utf8.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed sequence at @at, 0: none begins here. A NUL ends a sequence early. */
static size_t sequence_size(const uint8_t *at)
{
	uint8_t first = at[0];
	uint32_t code;
	size_t size;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4) // a continuation, an over-long form, past U+10FFFF
		return 0;
	size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	code = first & (0x7fU >> size);
	for (size_t i = 1; i < size; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if ((size == 3 && (code < 0x800 || (code >= 0xd800 && code <= 0xdfff))) ||
	    (size == 4 && (code < 0x10000 || code > 0x10ffff)))
		return 0;
	return size;
}

void utf8_clean(char *text)
{
	uint8_t *at = (uint8_t *)text;

	while (*at) {
		size_t size = sequence_size(at);

		if (size == 0 || (size == 1 && (*at < 0x20 || *at == 0x7f))) {
			*at++ = '?';
			continue;
		}
		at += size;
	}
}
