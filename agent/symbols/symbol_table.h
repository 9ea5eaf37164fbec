// SPDX-License-Identifier: Apache-2.0
// The functions of one ELF file: where each begins and ends, sorted, 12 bytes each. Names stay in
// the files and are read when asked for: a library's names are ten times its positions.
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
	uint64_t size;  // bytes; of a symbol without one: up to the next, or to its section's end
	uint32_t index; // for symbol_table_read_name()
};

/**
 * Read .symtab and .dynsym, the debug file's .symtab, and where there is no .symtab at all, Go's
 * own table. Of several names for one address a global one is kept before a weak or a local one,
 * and one of .symtab before .dynsym's.
 * Returns 0, also for a file without symbols or with broken section headers (an empty table);
 * -ENOMEM; -errno. What lies outside the file or outside executable segments is left out.
 */
int symbol_table_read(const struct symbol_sources *sources, struct symbol_table **ret_table);
void symbol_table_free(struct symbol_table *table);

/** The innermost function that covers @offset in the file. Returns 0 or -ENOENT. */
int symbol_table_find(const struct symbol_table *table, uint64_t offset,
		      struct symbol_range *ret_range);

/**
 * The linker's name of symbol @index, read from @fd and @debug_fd, the files that the table was
 * read from. Returns 0; -ENOENT if the file no longer holds it; -errno.
 */
int symbol_table_read_name(const struct symbol_table *table, int fd, int debug_fd, uint32_t index,
			   char ret_name[SYMBOL_NAME_BYTES]);

/** Whether the linker's own list of functions was there, which is complete where .dynsym is not. */
bool symbol_table_is_complete(const struct symbol_table *table);

uint32_t symbol_table_count(const struct symbol_table *table);
/** Memory held, bytes. */
size_t symbol_table_bytes(const struct symbol_table *table);
