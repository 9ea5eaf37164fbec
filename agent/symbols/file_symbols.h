// SPDX-License-Identifier: Apache-2.0
// The symbols of one file, from all sources: its own symbol tables, mini debug info packed into it, a
// separate debug file, and its language runtime's tables.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/debug_file.h"
#include "agent/symbols/symbol_table.h"

/** Zeroed, with debug_fd -1: none read. */
struct file_symbols {
	struct symbol_table *table;
	int debug_fd;         // a second file with names; -1: none
	uint64_t debug_bytes; // memory behind debug_fd; 0: a file on disk
};

/**
 * Read the symbols of @fd. @debug_fd is its debug file, which becomes the callee's in any case; -1: a
 * stripped file's is searched for by @search.
 * Returns 0, also where there are none; -ENOEXEC (not an ELF file of this machine); -ENOMEM; -errno.
 */
int file_symbols_read(int fd, const struct debug_file_search *search, int debug_fd,
		      struct file_symbols *ret_symbols);
void file_symbols_deinit(struct file_symbols *symbols);

/** The mangled name of symbol @index; @fd is the file itself. As symbol_table_read_name(). */
int file_symbols_read_name(const struct file_symbols *symbols, int fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES]);

/** Whether only exported functions were found: a debug file would have more. */
bool file_symbols_want_more(const struct file_symbols *symbols);
/** Whether there is a debug file on disk: it has more than symbols. */
bool file_symbols_have_debug_file(const struct file_symbols *symbols);
/** Whether it has a symbol table of its own: else it is stripped. */
bool file_has_symtab(const struct elf *elf);
/** Whether an ELF file itself has DWARF lines. */
bool file_has_lines(int fd);
/** Memory held, bytes. */
uint64_t file_symbols_bytes(const struct file_symbols *symbols);
