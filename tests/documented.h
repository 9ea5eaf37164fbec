// SPDX-License-Identifier: Apache-2.0
// Compares bytes with an example in docs/, so that the example cannot go stale.
//
// An example is a code block after a line "<!-- test: NAME -->". Each line begins with bytes in hex; two
// blanks end them, and the rest of the line explains them.
#pragma once

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

enum { DOCUMENTED_LINE_BYTES = 512 };

static inline size_t documented_read(FILE *file, uint8_t *ret_bytes, size_t size_max)
{
	char line[DOCUMENTED_LINE_BYTES];
	size_t size = 0;

	if (!fgets(line, sizeof(line), file) || strncmp(line, "```", 3))
		fail_msg("the line after the test's name does not begin a code block");
	while (fgets(line, sizeof(line), file) && strncmp(line, "```", 3)) {
		for (char *at = line; isxdigit(at[0]) && isxdigit(at[1]); at += *at == ' ') {
			assert_true(size < size_max);
			ret_bytes[size++] = (uint8_t)strtoul((char[]){ at[0], at[1], 0 }, NULL, 16);
			at += 2;
		}
	}
	return size;
}

static inline void documented_print(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		fprintf(stderr, "%02x%s", bytes[i], i % 16 == 15 || i + 1 == size ? "\n" : " ");
}

/** The example @name in the file @path, from the repository's root, must have @bytes. */
static inline void expect_documented(const char *path, const char *name, const void *bytes,
				     size_t size)
{
	char line[DOCUMENTED_LINE_BYTES], marker[64];
	FILE *file = fopen(path, "r");
	uint8_t documented[4096];

	if (!file)
		SKIP("the tests do not run in the repository's root");
	snprintf(marker, sizeof(marker), "<!-- test: %s -->\n", name);
	while (fgets(line, sizeof(line), file) && strcmp(line, marker))
		;
	size_t documented_size =
		feof(file) ? 0 : documented_read(file, documented, sizeof(documented));
	fclose(file);
	if (documented_size == size && !memcmp(documented, bytes, size))
		return;
	fprintf(stderr, "%s: the bytes of the example \"%s\" are now:\n", path, name);
	documented_print(bytes, size);
	if (!getenv("CAIRN_PRINT_EXAMPLES"))
		fail_msg("correct the example \"%s\" in %s", name, path);
}

/** The file @path must have the table row "| `NAME` | value |", or "`NAME` = value". */
static inline void expect_documented_number(const char *path, const char *name, long long value)
{
	char line[DOCUMENTED_LINE_BYTES], row[96], inlined[96];
	FILE *file = fopen(path, "r");
	bool found = false;

	if (!file)
		SKIP("the tests do not run in the repository's root");
	snprintf(row, sizeof(row), "| `%s` | %lld |", name, value);
	snprintf(inlined, sizeof(inlined), "`%s` = %lld ", name, value);
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, row) || strstr(line, inlined);
	fclose(file);
	if (!found)
		fail_msg("%s does not say that %s is %lld", path, name, value);
}
