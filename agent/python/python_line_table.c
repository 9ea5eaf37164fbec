// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_line_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/array.h"

enum {
	CODE_UNIT_BYTES = 2,    // of an instruction since 3.6
	PAIR_NO_LINE = -128,    // 3.10
	ENTRY_FIRST_BYTE = 128, // 3.11: only the first byte of an entry has this bit
	VARINT_MORE = 64,
	VARINT_BITS = 6,
	VARINT_SHIFT_MAX = 30, // CPython's are of 32 bits
};

/* Kinds of 3.11's entries that matter for lines (Include/internal/pycore_code.h). */
enum location_kind {
	LOCATION_ONE_LINE_0 = 10, // 0, 1 or 2 lines on
	LOCATION_ONE_LINE_2 = 12,
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG = 14,
	LOCATION_NONE = 15,
};

enum python_line_format python_line_format_of(uint32_t minor)
{
	if (minor <= 9)
		return PYTHON_LINE_FORMAT_LNOTAB;
	return minor == 10 ? PYTHON_LINE_FORMAT_PAIRS : PYTHON_LINE_FORMAT_LOCATIONS;
}

// ---- rows -----------------------------------------------------------------------------------

/* A table while it is decoded. `line` has 64 bits: no table within the limit makes it wrap. */
struct line_reader {
	const uint8_t *at, *end;
	struct python_line_table *lines;
	uint32_t row_capacity;
	uint64_t address; // of the instruction, in the table's unit
	int64_t line;
};

static uint32_t line_number(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

// From @start on it is @line. Of rows with the same start the last one counts.
static int add_row(struct line_reader *reader, uint64_t start, uint32_t line)
{
	struct python_line_table *lines = reader->lines;
	uint32_t count = lines->row_count;

	if (count && lines->rows[count - 1].start == start)
		count--;
	if (count && lines->rows[count - 1].line == line) {
		lines->row_count = count;
		return 0;
	}
	if (array_reserve(&lines->rows, sizeof(*lines->rows), &reader->row_capacity, count, 1,
			  UINT32_MAX))
		return -ENOMEM;
	lines->rows[count] = (struct python_line_row){ (uint32_t)start, line };
	lines->row_count = count + 1;
	return 0;
}

// ---- the three formats ----------------------------------------------------------------------

// Pairs (bytes, lines): after so many bytes it is so many lines on. The last line has no end.
static int read_lnotab(struct line_reader *reader)
{
	int rc = add_row(reader, 0, line_number(reader->line));

	for (; reader->end - reader->at >= 2 && !rc; reader->at += 2) {
		reader->address += reader->at[0];
		reader->line += (int8_t)reader->at[1];
		// Instructions have even offsets: a row at byte 5 begins with the one at byte 6.
		rc = add_row(reader, (reader->address + 1) / CODE_UNIT_BYTES,
			     line_number(reader->line));
	}
	return rc;
}

// Pairs (bytes, lines): the next so many bytes are so many lines on, or have no line.
static int read_pairs(struct line_reader *reader)
{
	int rc = 0;

	for (; reader->end - reader->at >= 2 && !rc; reader->at += 2) {
		int8_t delta = (int8_t)reader->at[1];

		if (delta != PAIR_NO_LINE)
			reader->line += delta;
		if (!reader->at[0])
			continue;
		rc = add_row(reader, (reader->address + 1) / CODE_UNIT_BYTES,
			     delta == PAIR_NO_LINE ? 0 : line_number(reader->line));
		reader->address += reader->at[0];
	}
	return rc ? rc : add_row(reader, (reader->address + 1) / CODE_UNIT_BYTES, 0);
}

// Little-endian groups of 6 bits; the lowest bit of all is the sign.
static int64_t read_signed_varint(struct line_reader *reader)
{
	uint64_t value = 0;
	uint32_t shift = 0;
	bool more = true;

	while (more && reader->at < reader->end && !(*reader->at & ENTRY_FIRST_BYTE)) {
		uint8_t byte = *reader->at++;

		if (shift <= VARINT_SHIFT_MAX)
			value |= (uint64_t)(byte & (VARINT_MORE - 1)) << shift;
		shift += VARINT_BITS;
		more = byte & VARINT_MORE;
	}
	int64_t magnitude = (int64_t)(value >> 1);
	return value & 1 ? -magnitude : magnitude;
}

static int64_t read_line_delta(struct line_reader *reader, uint32_t kind)
{
	switch (kind) {
	case LOCATION_ONE_LINE_0 ... LOCATION_ONE_LINE_2:
		return kind - LOCATION_ONE_LINE_0;
	case LOCATION_NO_COLUMNS:
	case LOCATION_LONG:
		return read_signed_varint(reader);
	}
	return 0; // the same line, or none
}

// Entries: kind and length in code units, then by kind a change of line, and columns.
static int read_locations(struct line_reader *reader)
{
	int rc = 0;

	while (reader->at < reader->end && !rc) {
		uint8_t first = *reader->at++;
		uint32_t kind = (first >> 3) & 15;

		reader->line += read_line_delta(reader, kind);
		rc = add_row(reader, reader->address,
			     kind == LOCATION_NONE ? 0 : line_number(reader->line));
		reader->address += (first & 7U) + 1;
		while (reader->at < reader->end && !(*reader->at & ENTRY_FIRST_BYTE))
			reader->at++;
	}
	return rc ? rc : add_row(reader, reader->address, 0);
}

// ---- read and find --------------------------------------------------------------------------

static int read_table(struct line_reader *reader, enum python_line_format format)
{
	switch (format) {
	case PYTHON_LINE_FORMAT_LNOTAB:
		return read_lnotab(reader);
	case PYTHON_LINE_FORMAT_PAIRS:
		return read_pairs(reader);
	case PYTHON_LINE_FORMAT_LOCATIONS:
		return read_locations(reader);
	}
	return -EINVAL;
}

// Free spare memory: there are many tables, and they stay.
static void trim(struct python_line_table *lines)
{
	struct python_line_row *rows =
		reallocarray(lines->rows, lines->row_count, sizeof(*lines->rows));

	if (rows)
		lines->rows = rows;
}

int python_line_table_read(enum python_line_format format, int32_t first_line, const uint8_t *bytes,
			   uint32_t size, struct python_line_table *ret_lines)
{
	struct python_line_table lines = { .first_line = line_number(first_line) };
	struct line_reader reader = {
		.at = bytes,
		.end = bytes + size,
		.lines = &lines,
		.line = first_line,
	};

	if (size > PYTHON_LINE_TABLE_BYTES_MAX)
		return -E2BIG;
	int rc = read_table(&reader, format);
	if (rc) {
		free(lines.rows);
		return rc;
	}
	trim(&lines);
	*ret_lines = lines;
	return 0;
}

void python_line_table_deinit(struct python_line_table *lines)
{
	free(lines->rows);
	*lines = (struct python_line_table){ 0 };
}

uint32_t python_line_table_find(const struct python_line_table *lines, int64_t instruction)
{
	uint32_t low = 0, high = lines->row_count;

	if (instruction < 0)
		return lines->first_line;
	// Afterwards the row before `low` is the last one at or before the instruction.
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (lines->rows[middle].start <= instruction)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? lines->rows[low - 1].line : 0;
}
