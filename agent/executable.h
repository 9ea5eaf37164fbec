// SPDX-License-Identifier: Apache-2.0
// Executables and shared objects, known by what they are (build id, or a hash of the file where
// there is none), shared by all processes that map them. Their symbols are read once, when first
// needed. The files are hostile: every offset, count and size is checked and bounded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	EXECUTABLES_MAX = 16384,	     // distinct files per node; least recently used go first
	EXECUTABLE_SYMBOLS_MAX = 4 << 20,    // per file
};
#define EXECUTABLE_BYTES_MAX   (8ULL << 30)   // larger files are not opened
#define EXECUTABLE_SYMBOL_MEMORY_MAX (64ULL << 20) // of all symbol tables; least recently used are dropped and read again

struct executable_table;

/** One file. Valid until the next executable_table_trim(). */
struct executable {
	char *id;	// GNU build id in hex, or "h" and the file's hash in hex
	char *path;	// as the process sees it: /usr/lib/libfoo.so.1, "[vdso]", "memfd:x"
	bool has_build_id;
	// the rest is private to executable.c
};

/** A symbol that covers an offset. Strings are valid until the next call on the table. */
struct symbol {
	const char *name;      // demangled
	uint64_t start_offset; // in the file: where the function begins
	uint64_t size;	       // bytes, 0: unknown
};

struct executable_table *executable_table_new(void);
void executable_table_free(struct executable_table *table);

/**
 * The executable behind an open file. Takes what it needs from @fd now (identity) and keeps a
 * duplicate for reading symbols later. @path is for display. @fd stays the caller's.
 * Returns 0; -ENOEXEC (not an ELF file of this machine, or broken; @err says what); -EFBIG; -errno.
 */
int executable_table_open(struct executable_table *table, int fd, const char *path,
			  struct executable **ret_executable, struct error *err);

/**
 * The function at @offset (in the file). Reads .symtab and .dynsym on first use.
 * Returns 0, or -ENOENT if no symbol covers it (or the file has none).
 */
int executable_find_symbol(struct executable_table *table, struct executable *executable,
			   uint64_t offset, struct symbol *ret_symbol);

uint64_t executable_table_count(const struct executable_table *table);
/** Memory of symbol tables, bytes. */
uint64_t executable_table_symbol_bytes(const struct executable_table *table);
