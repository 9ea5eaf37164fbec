// SPDX-License-Identifier: Apache-2.0
// Lines of instructions: made-up and hostile tables, and those of each interpreter's standard
// library against the interpreter's own lines (CAIRN_TEST_FULL=1: all of them, not a dozen).
#include <errno.h>
#include <stdlib.h>

#include "agent/python/python_line_table.h"
#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/python/pythons.h"

#define LNOTAB    PYTHON_LINE_FORMAT_LNOTAB
#define PAIRS     PYTHON_LINE_FORMAT_PAIRS
#define LOCATIONS PYTHON_LINE_FORMAT_LOCATIONS
#define NO_LINE   0

/* 3.11's first bytes: kind, code units. */
#define ENTRY(kind, units) (uint8_t)(0x80 | (kind) << 3 | ((units)-1))

static const struct {
	const char *what;
	enum python_line_format format;
	uint32_t size;
	uint8_t bytes[24];
	int32_t first;
	int64_t instruction;
	uint32_t line;
} rows[] = {
	{ "lnotab: empty, all is the first line", LNOTAB, 0, { 0 }, 7, 1000, 7 },
	{ "lnotab: before the first change", LNOTAB, 4, { 4, 1, 6, 2 }, 10, 1, 10 },
	{ "lnotab: at the first change", LNOTAB, 4, { 4, 1, 6, 2 }, 10, 2, 11 },
	{ "lnotab: the last goes on", LNOTAB, 4, { 4, 1, 6, 2 }, 10, 5000, 13 },
	{ "lnotab: backwards", LNOTAB, 4, { 4, 5, 6, 0xfd }, 10, 5, 12 },
	{ "lnotab: more than 127 lines", LNOTAB, 4, { 6, 127, 0, 73 }, 1, 3, 201 },
	{ "lnotab: more than 255 bytes", LNOTAB, 4, { 255, 0, 45, 1 }, 1, 149, 1 },
	{ "lnotab: 300 bytes further", LNOTAB, 4, { 255, 0, 45, 1 }, 1, 150, 2 },
	{ "lnotab: changes at 0", LNOTAB, 4, { 0, 3, 0, 4 }, 1, 0, 8 },
	{ "lnotab: an odd place is the next instruction's", LNOTAB, 2, { 3, 1 }, 1, 1, 1 },
	{ "lnotab: an odd place, next", LNOTAB, 2, { 3, 1 }, 1, 2, 2 },
	{ "lnotab: half a pair at the end", LNOTAB, 3, { 4, 1, 2 }, 1, 9, 2 },
	{ "lnotab: below line 1", LNOTAB, 2, { 4, 0x80 }, 5, 2, NO_LINE },
	{ "lnotab: above INT32_MAX", LNOTAB, 2, { 4, 1 }, INT32_MAX, 2, NO_LINE },
	{ "lnotab: not begun", LNOTAB, 2, { 0, 1 }, 5, -1, 5 },

	{ "3.10: empty", PAIRS, 0, { 0 }, 7, 0, NO_LINE },
	{ "3.10: first range", PAIRS, 4, { 4, 1, 6, 2 }, 10, 1, 11 },
	{ "3.10: second range", PAIRS, 4, { 4, 1, 6, 2 }, 10, 2, 13 },
	{ "3.10: last unit", PAIRS, 4, { 4, 1, 6, 2 }, 10, 4, 13 },
	{ "3.10: behind the end", PAIRS, 4, { 4, 1, 6, 2 }, 10, 5, NO_LINE },
	{ "3.10: no line", PAIRS, 6, { 4, 1, 2, 0x80, 4, 0 }, 10, 2, NO_LINE },
	{ "3.10: after no line it is the line before",
	  PAIRS,
	  6,
	  { 4, 1, 2, 0x80, 4, 0 },
	  10,
	  3,
	  11 },
	{ "3.10: empty range that changes the line", PAIRS, 4, { 0, 100, 4, 100 }, 1, 0, 201 },
	{ "3.10: empty range without line", PAIRS, 4, { 0, 0x80, 4, 1 }, 1, 0, 2 },
	{ "3.10: back", PAIRS, 4, { 4, 5, 4, 0xfe }, 1, 2, 4 },
	{ "3.10: half a pair", PAIRS, 3, { 4, 5, 4 }, 1, 2, NO_LINE },
	{ "3.10: not begun", PAIRS, 2, { 4, 5 }, 9, -1, 9 },

	{ "3.11: empty", LOCATIONS, 0, { 0 }, 7, 0, NO_LINE },
	{ "3.11: short", LOCATIONS, 2, { ENTRY(3, 2), 0x11 }, 7, 1, 7 },
	{ "3.11: behind the end", LOCATIONS, 2, { ENTRY(3, 2), 0x11 }, 7, 2, NO_LINE },
	{ "3.11: a line further", LOCATIONS, 3, { ENTRY(11, 1), 4, 9 }, 7, 0, 8 },
	{ "3.11: two lines further", LOCATIONS, 3, { ENTRY(12, 8), 4, 9 }, 7, 7, 9 },
	{ "3.11: no columns, three lines back", LOCATIONS, 2, { ENTRY(13, 1), 7 }, 7, 0, 4 },
	{ "3.11: no columns, 40 lines further", LOCATIONS, 3, { ENTRY(13, 1), 0x50, 1 }, 7, 0, 47 },
	{ "3.11: long", LOCATIONS, 5, { ENTRY(14, 1), 10, 1, 5, 9 }, 7, 0, 12 },
	{ "3.11: none", LOCATIONS, 3, { ENTRY(12, 1), 1, 2 }, 7, 0, 9 },
	{ "3.11: none keeps the running line",
	  LOCATIONS,
	  6,
	  { ENTRY(12, 1), 1, 2, ENTRY(15, 1), ENTRY(0, 1), 5 },
	  7,
	  2,
	  9 },
	{ "3.11: none has no line",
	  LOCATIONS,
	  6,
	  { ENTRY(12, 1), 1, 2, ENTRY(15, 1), ENTRY(0, 1), 5 },
	  7,
	  1,
	  NO_LINE },
	{ "3.11: line 0 of a module's first instruction",
	  LOCATIONS,
	  2,
	  { ENTRY(13, 1), 3 },
	  1,
	  0,
	  NO_LINE },
	{ "3.11: cut within a number", LOCATIONS, 3, { ENTRY(13, 1), 0x50, 0x41 }, 7, 0, 47 },
	{ "3.11: a number without end",
	  LOCATIONS,
	  11,
	  { ENTRY(13, 1), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f },
	  7,
	  0,
	  NO_LINE },
	{ "3.11: no first byte at the start", LOCATIONS, 3, { 1, 2, 3 }, 7, 0, 7 },
	{ "3.11: not begun", LOCATIONS, 2, { ENTRY(13, 1), 7 }, 7, -1, 7 },
	{ "a first line of 0", LOCATIONS, 0, { 0 }, 0, -1, NO_LINE },
	{ "a negative first line", LNOTAB, 0, { 0 }, INT32_MIN, 3, NO_LINE },
};

TEST(decodes_tables_as_cpython_does)
{
	for EACH (row, rows) {
		struct python_line_table lines;

		EXPECT_EQ(0,
			  python_line_table_read(row->format, row->first, row->bytes, row->size,
						 &lines),
			  row->what);
		EXPECT_EQ(row->line, python_line_table_find(&lines, row->instruction), row->what);
		python_line_table_deinit(&lines);
	}
}

TEST(refuses_tables_beyond_the_limit)
{
	_cleanup_free_ uint8_t *bytes = calloc(1, PYTHON_LINE_TABLE_BYTES_MAX + 1);
	struct python_line_table lines;

	EXPECT_EQ(-E2BIG,
		  python_line_table_read(LNOTAB, 1, bytes, PYTHON_LINE_TABLE_BYTES_MAX + 1, &lines),
		  "one byte more");
	EXPECT_EQ(0, python_line_table_read(LNOTAB, 1, bytes, PYTHON_LINE_TABLE_BYTES_MAX, &lines),
		  "just so");
	EXPECT_EQ(1, lines.row_count, "all of it is one line");
	python_line_table_deinit(&lines);
}

TEST(the_version_selects_the_format)
{
	EXPECT_EQ(LNOTAB, python_line_format_of(6), "3.6");
	EXPECT_EQ(LNOTAB, python_line_format_of(9), "3.9");
	EXPECT_EQ(PAIRS, python_line_format_of(10), "3.10");
	EXPECT_EQ(LOCATIONS, python_line_format_of(11), "3.11");
	EXPECT_EQ(LOCATIONS, python_line_format_of(14), "3.14");
}

// ---- against the interpreters ---------------------------------------------------------------

/* What tests/python/dump_lines.py writes for a code object, and a run of its instructions. */
struct dumped_table {
	int32_t first_line;
	uint32_t size;
	uint32_t run_count;
};

struct dumped_run {
	uint32_t units;
	int32_t line;
};

/* Returns how many instructions were compared. */
static uint64_t check_table(FILE *dump, const struct python_program *python,
			    const struct dumped_table *table)
{
	_cleanup_free_ uint8_t *bytes = malloc(table->size + 1);
	struct python_line_table lines;
	struct dumped_run run;
	uint32_t at = 0;

	assert_int_equal(table->size, fread(bytes, 1, table->size, dump));
	EXPECT_EQ(0,
		  python_line_table_read(python_line_format_of(python->minor), table->first_line,
					 bytes, table->size, &lines),
		  python->path);
	for (uint32_t i = 0; i < table->run_count; i++) {
		assert_int_equal(1, fread(&run, sizeof(run), 1, dump));
		for (uint32_t limit = at + run.units; at < limit; at++)
			EXPECT_EQ(run.line, python_line_table_find(&lines, at), python->path);
	}
	python_line_table_deinit(&lines);
	return at;
}

static void check_python(const struct python_program *python, const char *how_many)
{
	char command[PYTHON_PATH_BYTES + 128];
	struct dumped_table table;
	uint64_t tables = 0, units = 0;

	snprintf(command, sizeof(command), "'%s' tests/python/dump_lines.py %s", python->path,
		 how_many);
	FILE *dump = popen(command, "re");

	assert_non_null(dump);
	for (; fread(&table, sizeof(table), 1, dump) == 1; tables++)
		units += check_table(dump, python, &table);
	EXPECT_EQ(0, pclose(dump), python->path);
	printf("3.%u: %llu tables, %llu instructions\n", python->minor, (unsigned long long)tables,
	       (unsigned long long)units);
	assert_true(tables > 100 && units > 10000);
}

TEST(lines_match_each_interpreters)
{
	find_pythons();
	if (!python_program_count)
		SKIP("no CPython 3.6 or newer here");
	for (unsigned i = 0; i < python_program_count; i++)
		check_python(&python_programs[i], getenv("CAIRN_TEST_FULL") ? "full" : "quick");
}

RUN_TESTS(cmocka_unit_test(decodes_tables_as_cpython_does),
	  cmocka_unit_test(refuses_tables_beyond_the_limit),
	  cmocka_unit_test(the_version_selects_the_format),
	  cmocka_unit_test(lines_match_each_interpreters))
