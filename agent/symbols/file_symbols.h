// SPDX-License-Identifier: Apache-2.0
// The functions of one file from wherever they can be had: the file itself, what was packed into
// it or split off from it when it was stripped, and its language's own tables.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/debug_file.h"
#include "agent/symbols/symbol_table.h"

/** Zeroed, with debug_fd -1: none read. */
struct file_symbols {
	struct symbol_table *table;
	int debug_fd;         // its names' other file; -1: none
	uint64_t debug_bytes; // of memory behind debug_fd; 0: a file on disk
};

/**
 * Read the symbols of @fd. If it is stripped, @debug_fd is its debug file, taken over in any case;
 * if that is -1, one is looked for as @search says.
 * Returns 0, also where there are none; -ENOEXEC (not an ELF file of this machine); -ENOMEM; -errno.
 */
int file_symbols_read(int fd, const struct debug_file_search *search, int debug_fd,
		      struct file_symbols *ret_symbols);
void file_symbols_deinit(struct file_symbols *symbols);

/** The linker's name of symbol @index; @fd is the file itself. As symbol_table_read_name(). */
int file_symbols_read_name(const struct file_symbols *symbols, int fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES]);

/** Whether nothing better than exported functions was found: a debug file would say more. */
bool file_symbols_want_more(const struct file_symbols *symbols);
/** Whether there is a whole debug file, with more than symbols. */
bool file_symbols_have_debug_file(const struct file_symbols *symbols);
/** Whether an ELF file itself has DWARF lines. */
bool file_has_lines(int fd);
/** Memory held, bytes. */
uint64_t file_symbols_bytes(const struct file_symbols *symbols);
