// SPDX-License-Identifier: Apache-2.0
// Source lines of a Python function's instructions. CPython has had three formats; each is decoded once into sorted
// rows for a binary search. Pure functions over bytes of another process's memory, which may hold anything.
#pragma once

#include <stdint.h>

enum {
	PYTHON_LINE_TABLE_BYTES_MAX =
		1 << 20, // of one code object; 3.11's take 4 bytes per instruction
};

enum python_line_format {
	PYTHON_LINE_FORMAT_LNOTAB = 1,    // co_lnotab up to 3.9 (Objects/lnotab_notes.txt)
	PYTHON_LINE_FORMAT_PAIRS = 2,     // co_linetable of 3.10 (Objects/lnotab_notes.txt)
	PYTHON_LINE_FORMAT_LOCATIONS = 3, // co_linetable since 3.11 (Objects/locations.md)
};

/** From instruction @start up to the next row's. */
struct python_line_row {
	uint32_t start; // in code units of 2 bytes
	uint32_t line;  // 0: no line
};

struct python_line_table {
	uint32_t first_line; // where the function begins, decorators included; 0: unknown
	uint32_t row_count;
	struct python_line_row *rows; // strictly rising; neighbours differ in their line
};

/** The format of CPython 3.@minor. */
enum python_line_format python_line_format_of(uint32_t minor);

/**
 * Decode the @size bytes of a line table. Any bytes give some rows: a table that is cut off ends there. Lines outside
 * 1..INT32_MAX count as none.
 * Returns 0; -E2BIG beyond PYTHON_LINE_TABLE_BYTES_MAX; -ENOMEM.
 */
int python_line_table_read(enum python_line_format format, int32_t first_line, const uint8_t *bytes,
			   uint32_t size, struct python_line_table *ret_lines);
void python_line_table_deinit(struct python_line_table *lines);

/**
 * The line of instruction @instruction, counted in code units of 2 bytes (f_lasti / 2 up to 3.9, f_lasti in 3.10,
 * distance / 2 since 3.11). Negative: the function has not begun and is on its first line. Returns 0 for an
 * instruction without a line.
 */
uint32_t python_line_table_find(const struct python_line_table *lines, int64_t instruction);
