// SPDX-License-Identifier: Apache-2.0
// A fuzzer's input as a request's parameters: lines of name=value up to an empty one. What follows is the body.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETER_LINES_MAX = 16, PARAMETER_TEXT_BYTES = 512 };

struct parameter_line {
	char name[PARAMETER_TEXT_BYTES], value[PARAMETER_TEXT_BYTES];
};

struct parameter_lines {
	struct parameter_line list[PARAMETER_LINES_MAX];
	uint32_t count;
};

static inline void parameter_copy(char text[PARAMETER_TEXT_BYTES], const uint8_t *bytes,
				  size_t size)
{
	size = size < PARAMETER_TEXT_BYTES ? size : PARAMETER_TEXT_BYTES - 1;
	memcpy(text, bytes, size);
	text[size] = '\0';
}

/** Fill @lines, which is zeroed. Returns where the body begins. */
static inline size_t parameter_lines_read(const uint8_t *bytes, size_t size,
					  struct parameter_lines *lines)
{
	size_t at = 0;

	while (at < size && lines->count < PARAMETER_LINES_MAX) {
		const uint8_t *end = memchr(bytes + at, '\n', size - at);
		size_t line = end ? (size_t)(end - bytes) - at : size - at;
		const uint8_t *equals = line ? memchr(bytes + at, '=', line) : NULL;
		struct parameter_line *next = &lines->list[lines->count];

		if (!line)
			return at + 1;
		if (equals) {
			size_t name = (size_t)(equals - bytes) - at;

			parameter_copy(next->name, bytes + at, name);
			parameter_copy(next->value, equals + 1, line - name - 1);
			lines->count++;
		}
		at += line + (end != NULL);
	}
	return at;
}

/** "" if it is absent. A door's function for parameters: @context is the lines. */
static inline const char *parameter_lines_get(const void *context, const char *name)
{
	const struct parameter_lines *lines = context;

	for (uint32_t i = 0; i < lines->count; i++)
		if (strcmp(lines->list[i].name, name) == 0)
			return lines->list[i].value;
	return "";
}
