// SPDX-License-Identifier: Apache-2.0
// The source lines of one function with their values, apart for each file, service and version that recorded them: lines move
// between versions.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/string_table.h"
#include "collector/query/query_select.h"

enum {
	FUNCTION_FILES_MAX = 1 << 12,   // a function's name in files, services and versions
	FUNCTION_LINES_MAX = 1 << 16,   // of all of them
	FUNCTION_MATCHES_MAX = 1 << 20, // places in one partition
};

/** One line. Recursion counts once in its total. */
struct function_line {
	uint32_t file;   // position in files
	uint32_t number; // 0: not recorded
	int64_t self;
	int64_t total;
};

/** A file that has the function, as one version of one service recorded it. */
struct function_file {
	uint32_t path;             // string; 0: not recorded
	uint32_t service, version; // strings: labels of the series; 0: none
	enum frame_kind kind;
	int64_t self;
	int64_t total;
	uint32_t first_line, line_count; // in lines, by rising number
};

/** Numbers of strings refer to strings. */
struct function_lines {
	struct string_table strings;
	struct function_file *files; // by falling self, then total
	uint32_t file_count, file_capacity;
	struct function_line *lines;
	uint32_t line_count, line_capacity;
	int64_t self, total; // of the function
	int64_t whole;       // of all samples that the query selects
};

void function_lines_deinit(struct function_lines *lines);

/**
 * The lines of the function called @function, as tables with FRAME_LINES_NONE call it. group_by and lines of @query are not
 * used. Without such a function there are no files. Errors are those of query_flame_tree().
 */
int query_function_lines(const struct query *query, const char *function,
			 struct function_lines *ret_lines, struct error *err);
