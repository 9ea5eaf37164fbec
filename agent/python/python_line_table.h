// SPDX-License-Identifier: Apache-2.0
// Which source line an instruction of a Python function is on. CPython has written this down in
// three ways; each is read once into sorted rows, so that a look-up is a search. Pure functions over
// bytes that come from another process's memory and may be anything.
#pragma once

#include <stdint.h>

enum {
	/*
	 * Of one code object. 3.11's take some 4 bytes an instruction, 3.10's a list of 5,000 sums
	 * 400 KiB.
	 */
	PYTHON_LINE_TABLE_BYTES_MAX = 1 << 20,
};

/** How a line table is written. */
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

/** What CPython 3.@minor writes. */
enum python_line_format python_line_format_of(uint32_t minor);

/**
 * Read the @size bytes of a line table. Whatever they are gives some rows: a table that is cut off
 * ends there. Lines that are not in 1..INT32_MAX count as none.
 * Returns 0; -E2BIG beyond PYTHON_LINE_TABLE_BYTES_MAX; -ENOMEM.
 */
int python_line_table_read(enum python_line_format format, int32_t first_line, const uint8_t *bytes,
			   uint32_t size, struct python_line_table *ret_lines);
void python_line_table_deinit(struct python_line_table *lines);

/**
 * The line of the instruction that begins @instruction code units of 2 bytes after the first one
 * (f_lasti / 2 up to 3.9, f_lasti in 3.10, distance / 2 since 3.11). Negative: the function has not
 * begun, which is on its first line. Returns 0 if CPython says that the instruction has no line.
 */
uint32_t python_line_table_find(const struct python_line_table *lines, int64_t instruction);
