// SPDX-License-Identifier: Apache-2.0
// The functions of executables, and the files with their source lines. Symbols are read when first needed, from the file,
// its debug file or a debuginfod server, and freed when they are not used. The files are hostile: every offset, count and size is
// checked and bounded.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/executable.h"

enum { NO_LINES_S = 60 }; // so long no debug file is looked for again where none was
#define EXECUTABLE_SYMBOL_MEMORY_MAX \
	(64ULL << 20) // of all symbol tables; the least recently used are evicted, and read again

/** CPU time for reading symbols per export interval; the rest is read in the next. A payer leaves others half of it. */
#define EXECUTABLE_SYMBOLS_NS_MAX (2ULL * 1000000000)

struct debuginfod;

/** A symbol that covers an offset. Strings are valid until the next call on the table. */
struct symbol {
	const char *name;      // demangled
	uint64_t start_offset; // in the file: where the function begins
	uint64_t size;         // bytes, 0: unknown
};

/** Fetch the symbols of stripped files from these servers. @debuginfod outlives the table. */
void executable_table_use_debuginfod(struct executable_table *table, struct debuginfod *debuginfod);
/** An export interval begins: use servers' answers, and let symbols be read that there was no time for. */
void executable_table_poll(struct executable_table *table);

/** Whether more names may come: symbols_version changes when they do. */
bool executable_may_learn_names(const struct executable *executable);

/**
 * The function at @offset in the file. Reads the symbols on first use (file_symbols.h).
 * Returns 0; -ENOENT if no symbol covers it; -EAGAIN past EXECUTABLE_SYMBOLS_NS_MAX, or its payer's share of that: in a
 * later interval.
 */
int executable_find_symbol(struct executable_table *table, struct executable *executable,
			   uint64_t offset, struct symbol *ret_symbol);

/** The files that an executable's source lines are read from. -1: none. */
struct line_files {
	int fd;       // the file itself, always open
	int debug_fd; // its separate debug file, if that has the lines
	int alt_fd;   // DWARF shared with other files (debug_file_open_alt())
};

/**
 * Open them for the caller. Returns 0; -ENOENT if the executable's file is closed; -ENODATA if neither it nor a debug
 * file has lines, which is looked for again after NO_LINES_S seconds; -errno.
 */
int executable_open_lines(struct executable_table *table, struct executable *executable,
			  struct line_files *ret_files);
void line_files_close(struct line_files *files);

/** Memory of symbol tables and cached names, bytes. */
uint64_t executable_table_symbol_bytes(const struct executable_table *table);
