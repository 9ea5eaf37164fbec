// SPDX-License-Identifier: Apache-2.0
// Beginnings and ends of strings, and digits.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool text_begins_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static inline bool text_ends_with(const char *text, const char *suffix)
{
	size_t size = strlen(text), suffix_size = strlen(suffix);

	return size >= suffix_size && memcmp(text + size - suffix_size, suffix, suffix_size) == 0;
}

/** What is after the last slash of @path: all of it where there is none. */
static inline const char *path_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/** The same; but all of a path that ends with a slash. */
static inline const char *path_shown_name(const char *path)
{
	const char *name = path_base_name(path);

	return *name ? name : path;
}

/** The value of a hexadecimal digit; -1: it is none. */
static inline int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 'a' - 'A';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/** Two digits a byte, and a NUL. */
static inline void text_encode_hex(const uint8_t *bytes, size_t size, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		*ret_text++ = digits[bytes[i] >> 4];
		*ret_text++ = digits[bytes[i] & 15];
	}
	*ret_text = '\0';
}
