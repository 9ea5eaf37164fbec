// SPDX-License-Identifier: Apache-2.0
// The functions of one ELF file by offset, 12 bytes each. Names stay in the file and are read on demand: they
// would take ten times the memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/symbols/symbol_list.h"

struct symbol_table;

enum { SYMBOL_NAME_BYTES = 4096 }; // longer names are cut

/** One function. Offsets are in the file. */
struct symbol_range {
	uint64_t start_offset;
	uint64_t size;  // bytes; without one in the file: up to the next, or to the section's end
	uint32_t index; // for symbol_table_read_name()
};

/**
 * Read .symtab and .dynsym, the debug file's .symtab, and, without any .symtab, Go's own table. Of several names
 * for one address a global one is kept before a local or weak one, and .symtab's before .dynsym's. Symbols
 * outside the file or outside executable segments are left out.
 * Returns 0, also for a file without symbols or with broken section headers (an empty table); -ENOMEM; -errno.
 */
int symbol_table_read(const struct symbol_sources *sources, struct symbol_table **ret_table);
void symbol_table_free(struct symbol_table *table);

/** The innermost function that covers @offset in the file. Returns 0 or -ENOENT. */
int symbol_table_find(const struct symbol_table *table, uint64_t offset,
		      struct symbol_range *ret_range);

/**
 * The mangled name of symbol @index, read from @fd or @debug_fd, the table's files. Returns 0; -ENOENT if the
 * file changed; -errno.
 */
int symbol_table_read_name(const struct symbol_table *table, int fd, int debug_fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES]);

/** Whether it has a .symtab, which lists all functions; .dynsym has only the exported ones. */
bool symbol_table_is_complete(const struct symbol_table *table);

uint32_t symbol_table_count(const struct symbol_table *table);
/** Memory held, bytes. */
size_t symbol_table_bytes(const struct symbol_table *table);
