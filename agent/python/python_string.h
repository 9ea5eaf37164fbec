// SPDX-License-Identifier: Apache-2.0
// Decodes a Python string object to UTF-8. PEP 393 keeps 1, 2 or 4 bytes per character, behind the object's head or
// where a pointer leads (Include/cpython/unicodeobject.h). The bytes are hostile.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/python.h"

/** The characters of a string object. */
struct python_string {
	uint32_t count;           // to read
	uint32_t character_bytes; // 1 (Latin-1), 2 or 4
	bool is_indirect;         // a pointer leads to them
};

/** Size of every object's head, with ob_type: 16, or 32 in a free-threaded build. */
uint32_t python_object_head_bytes(const struct python_offsets *offsets);

/** Size of the shortest string object's head: more may not be mapped. */
uint32_t python_string_head_bytes(const struct python_offsets *offsets);

/**
 * Parse the first python_string_head_bytes() of a string object, of which at most @size_max bytes of UTF-8 are
 * wanted. *ret_offset, from its start, is where the characters are, or the pointer to them. Returns 0; -EBADMSG: no
 * string.
 */
int python_string_find(const struct python_offsets *offsets, const uint8_t *object,
		       uint32_t size_max, struct python_string *ret_text, uint32_t *ret_offset);

/**
 * The string in UTF-8, cut between characters to @size_max bytes, on the heap. NUL, surrogates and invalid code
 * points become '?'. NULL when out of memory.
 */
char *python_string_decode(const struct python_string *text, const uint8_t *characters,
			   uint32_t size_max);
