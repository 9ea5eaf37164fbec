// SPDX-License-Identifier: Apache-2.0
// Any bytes as a line table: rows ascend, and each instruction is on the line of a walk from
// the table's start, as CPython does it for a traceback.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/python/python_line_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Where the walk is: a range of bytes of code and its line, -1: none. */
struct range {
	int64_t start, limit, line, running;
	const uint8_t *at, *end;
};

static bool next_pair(struct range *range, bool is_lnotab)
{
	if (range->end - range->at < 2)
		return false;
	range->start = range->limit;
	range->limit += range->at[0];
	if (is_lnotab) {
		// The pair is where the line changes: this range has the line before it.
		range->line = range->running;
		range->running += (int8_t)range->at[1];
	} else if ((int8_t)range->at[1] == -128) {
		range->line = -1;
	} else {
		range->running += (int8_t)range->at[1];
		range->line = range->running;
	}
	range->at += 2;
	return true;
}

static int64_t signed_varint(const uint8_t *at, const uint8_t *end)
{
	uint64_t value = 0;
	unsigned shift = 0;

	for (; at < end && *at < 128; at++, shift += 6) {
		if (shift < 36)
			value |= (uint64_t)(*at & 63) << shift;
		if (!(*at & 64))
			break;
	}
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static bool next_entry(struct range *range)
{
	if (range->at == range->end)
		return false;
	unsigned kind = *range->at >> 3 & 15;

	if (kind == 13 || kind == 14)
		range->running += signed_varint(range->at + 1, range->end);
	else if (kind >= 10 && kind <= 12)
		range->running += kind - 10;
	range->line = kind == 15 ? -1 : range->running;
	range->start = range->limit;
	range->limit += 2 * ((*range->at & 7) + 1);
	for (range->at++; range->at < range->end && *range->at < 128; range->at++)
		;
	return true;
}

static void expect(const struct python_line_table *lines, int64_t instruction, int64_t line)
{
	if (line < 0 || line > INT32_MAX)
		line = 0;
	if (python_line_table_find(lines, instruction) != line)
		abort();
}

static void walk(enum python_line_format format, const struct python_line_table *lines,
		 struct range range)
{
	bool is_lnotab = format == PYTHON_LINE_FORMAT_LNOTAB;
	int64_t instruction = 0;

	while (format == PYTHON_LINE_FORMAT_LOCATIONS ? next_entry(&range)
						      : next_pair(&range, is_lnotab)) {
		for (; 2 * instruction < range.limit; instruction++)
			expect(lines, instruction, range.line);
	}
	for (int i = 0; i < 3; i++)
		expect(lines, instruction + i, is_lnotab ? range.running : -1);
}

static void check(enum python_line_format format, int32_t first_line, const uint8_t *bytes,
		  size_t size)
{
	struct python_line_table lines;

	if (python_line_table_read(format, first_line, bytes, size, &lines) < 0)
		abort();
	for (uint32_t i = 1; i < lines.row_count; i++) {
		if (lines.rows[i].start <= lines.rows[i - 1].start ||
		    lines.rows[i].line == lines.rows[i - 1].line)
			abort();
	}
	walk(format, &lines,
	     (struct range){ .running = first_line, .at = bytes, .end = bytes + size });
	python_line_table_find(&lines, INT64_MAX);
	python_line_table_find(&lines, INT64_MIN);
	python_line_table_deinit(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int32_t first_line;

	if (size < sizeof(first_line) || size > 4096)
		return 0;
	memcpy(&first_line, bytes, sizeof(first_line));
	for (enum python_line_format format = PYTHON_LINE_FORMAT_LNOTAB;
	     format <= PYTHON_LINE_FORMAT_LOCATIONS; format++)
		check(format, first_line, bytes + sizeof(first_line), size - sizeof(first_line));
	return 0;
}
