// SPDX-License-Identifier: Apache-2.0
// A Python string object's bytes to UTF-8. PEP 393 keeps 1, 2 or 4 bytes a character, right behind
// the object's head or elsewhere (Include/cpython/unicodeobject.h). The bytes are hostile.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/python.h"

/** Where a string's characters are. */
struct python_string {
	uint32_t count;           // characters to read: no more than can be of use
	uint32_t character_bytes; // 1 (Latin-1), 2 or 4
	bool is_elsewhere;        // they do not lie behind the head
};

/** Bytes of every object's head, up to and with ob_type: 16, or 32 without the GIL. */
uint32_t python_object_head_bytes(const struct python_offsets *offsets);

/** Bytes of the shortest string object's head: more need not be mapped. */
uint32_t python_string_head_bytes(const struct python_offsets *offsets);

/**
 * Look at the first python_string_head_bytes() of a string object whose text is to have @size_max bytes
 * at most. *ret_offset is where, from its start on, its characters begin, or where the pointer to
 * them is if they are elsewhere. Returns 0 or -EBADMSG: it is no string.
 */
int python_string_find(const struct python_offsets *offsets, const uint8_t *object,
		       uint32_t size_max, struct python_string *ret_text, uint32_t *ret_offset);

/**
 * The text in UTF-8, @size_max bytes at most, cut between characters. What has no place in a name
 * (NUL, surrogates, beyond Unicode) becomes '?'. Heap, the caller's; NULL when out of memory.
 */
char *python_string_decode(const struct python_string *text, const uint8_t *characters,
			   uint32_t size_max);
