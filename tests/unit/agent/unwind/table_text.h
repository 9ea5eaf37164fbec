// SPDX-License-Identifier: Apache-2.0
// Unwind tables of files that a test writes (cfi_writer.h), as text.
#pragma once

#include <stdbool.h>
#include <unistd.h>

#include "agent/unwind/unwind_table_build.h"
#include "tests/unit/agent/unwind/cfi_writer.h"
#include "tests/unit/agent/unwind/rule_text.h"
#include "tests/test.h"

enum { ROWS_TEXT_BYTES = 4096 };

static inline struct unwind_table *build_marked(const struct cfi_image *image,
						const struct unwind_mark *marks,
						uint32_t mark_count)
{
	struct unwind_table *table = NULL;
	struct error err = { 0 };
	struct elf elf;

	assert_int_equal(0, cfi_image_open_cut(image, CFI_IMAGE_BYTES, &elf));
	int rc = unwind_table_build(&elf, marks, mark_count, UNWIND_TABLE_ROWS_MAX, &table, &err);
	close(elf.fd);
	if (rc)
		fail_msg("%d: %s", rc, err.text);
	return table;
}

static inline struct unwind_table *build(const struct cfi_image *image)
{
	return build_marked(image, NULL, 0);
}

/* "0 rule | 10 rule": where in [0, limit) of the text the rule changes. Offsets in hex. */
static const char *rows_of(const struct unwind_table *table, uint32_t limit)
{
	static char text[ROWS_TEXT_BYTES];
	char last[RULE_TEXT_BYTES] = "", rule[RULE_TEXT_BYTES];

	text[0] = '\0';
	for (uint32_t offset = 0; offset < limit; offset++) {
		size_t length = strlen(text);

		rule_text(rule, unwind_table_find(table, CFI_TEXT + offset));
		if (strcmp(rule, last) == 0)
			continue;
		snprintf(text + length, sizeof(text) - length, "%s%x %s", length ? " | " : "",
			 offset, rule);
		strcpy(last, rule);
	}
	return text;
}

/* The table of @image in a line; the image's memory is the caller's. */
static inline void expect_rows(const char *expected, const struct cfi_image *image, uint32_t limit,
			       const char *what)
{
	struct unwind_table *table = build(image);

	EXPECT_STR(expected, rows_of(table, limit), what);
	unwind_table_free(table);
}
