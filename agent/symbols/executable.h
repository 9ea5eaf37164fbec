// SPDX-License-Identifier: Apache-2.0
// Executables and shared objects, known by what they are (build id, or a hash of the file where
// there is none), shared by all processes that map them. Their symbols are read once, when first
// needed. The files are hostile: every offset, count and size is checked and bounded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"

enum {
	EXECUTABLES_MAX = 16384,         // distinct files per node; least recently used go first
	EXECUTABLE_FILES_OPEN_MAX = 512, // descriptors kept; half of the usual RLIMIT_NOFILE
};
#define EXECUTABLE_SYMBOL_MEMORY_MAX \
	(64ULL << 20) // of all symbol tables; least recently used are dropped and read again

/** CPU time that reading symbols may take in one window; what is left is read in the next. */
#define EXECUTABLE_SYMBOLS_NS_MAX (2ULL * 1000000000)

struct executable_table;

/** One file. Valid until the next executable_table_trim(), or while it is held. */
struct executable {
	char *id;   // GNU build id in hex, or "h" and the file's hash in hex
	char *path; // as the process sees it: /usr/lib/libfoo.so.1, "[vdso]", "memfd:x"
	bool has_build_id;
	uint32_t symbols_version; // changes when names that could not be had may be had now
				  // the rest is private to executable.c
};

/** A symbol that covers an offset. Strings are valid until the next call on the table. */
struct symbol {
	const char *name;      // demangled
	uint64_t start_offset; // in the file: where the function begins
	uint64_t size;         // bytes, 0: unknown
};

struct debuginfod;

struct executable_table *executable_table_new(void);
void executable_table_free(struct executable_table *table);

/** Ask these servers for the symbols of stripped files. It is the caller's and outlives the table. */
void executable_table_use_debuginfod(struct executable_table *table, struct debuginfod *debuginfod);
/** Begin a window: take what servers answered, and read again what there was no time for. */
void executable_table_poll(struct executable_table *table);

/**
 * The executable behind an open file. Takes what it needs from @fd now (identity) and keeps a
 * duplicate for reading symbols later. @path is for display. @fd stays the caller's.
 * Returns 0; -ENOEXEC (not an ELF file of this machine, or broken; @err says what); -EFBIG;
 * -ENOSPC at EXECUTABLES_MAX; -errno.
 */
int executable_table_open(struct executable_table *table, int fd, const char *path,
			  struct executable **ret_executable, struct error *err);

/**
 * The executable that executable_table_open() made of the file with this fstat() or stat(), NULL:
 * open it. A file written since (another size or time of change) is another file.
 */
struct executable *executable_table_find_file(const struct executable_table *table,
					      const struct stat *status);

/** The executable with this id (struct executable), NULL: none is known. */
struct executable *executable_table_find_id(const struct executable_table *table, const char *id);
/** The same, added if it is not known: a file that cannot be opened, known to the kernel by its build id. */
struct executable *executable_table_add_id(struct executable_table *table, const char *id,
					   const char *path);

/** A process that maps it, by its open folder in /proc: its debug file may lie below that root. */
void executable_note_folder(struct executable *executable, int folder);

/** Whether names that it lacks may still come: symbols_version changes when they have. */
bool executable_may_learn_names(const struct executable *executable);

/** Its file is no longer open: hand it to executable_table_open() again before asking for symbols. */
bool executable_wants_file(const struct executable *executable);

/**
 * Another descriptor of its file, the caller's, for reading it elsewhere or on another thread.
 * Returns it; -ENOENT if the file is not open now (executable_wants_file()); -errno.
 */
int executable_open_file(const struct executable *executable);

/** Keep it over executable_table_trim(), as each process that maps it does. NULL is allowed. */
struct executable *executable_hold(struct executable *executable);
void executable_release(struct executable *executable);

/**
 * Close the files that nobody holds (an open file keeps a container's file system busy), drop the
 * symbols that nobody asked for lately, and forget the least recently used executables of those
 * that are not held when there are too many.
 */
void executable_table_trim(struct executable_table *table);

/**
 * The function at @offset (in the file). Reads the symbols on first use (file_symbols.h).
 * Returns 0, -ENOENT if no symbol covers it (or the file has none), or -EAGAIN: too much was read lately.
 */
int executable_find_symbol(struct executable_table *table, struct executable *executable,
			   uint64_t offset, struct symbol *ret_symbol);

/** What an executable's lines are read from: descriptors, of which all but the first may be -1. */
struct line_files {
	int fd;       // the file
	int debug_fd; // its separate debug file, if that is where they are
	int alt_fd;   // what that, or the file, shares with others (debug_file_open_alt())
};

/** Open them for the caller. Returns 0; -ENOENT if the file is not open now; -errno. */
int executable_open_lines(struct executable_table *table, struct executable *executable,
			  struct line_files *ret_files);
void line_files_close(struct line_files *files);

uint64_t executable_table_count(const struct executable_table *table);
/** Memory of symbol tables and remembered names, bytes. */
uint64_t executable_table_symbol_bytes(const struct executable_table *table);
