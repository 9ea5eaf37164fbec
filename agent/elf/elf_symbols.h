// SPDX-License-Identifier: Apache-2.0
// Symbols by name: exported ones through the file's hash table, in a few small reads; all of them in one pass. For
// addresses to names see symbol_table.h.
#pragma once

#include <stdbool.h>

#include "agent/elf/elf.h"

enum {
	ELF_SYMBOL_NAME_BYTES_MAX = 256,         // of a name that is looked up
	ELF_SYMBOL_STRING_BYTES_MAX = 256 << 20, // a larger string table is not read
	ELF_SYMBOL_CHAIN_MAX = 4096,             // symbols compared per lookup
	ELF_SYMBOLS_MAX = 4 << 20, // of one table: Chromium, unstripped, has 1.5 million
};

/** Borrows @elf. */
struct elf_symbols {
	const struct elf *elf;
	Elf64_Shdr *sections; // owned
	uint32_t section_count;
};

/** Returns 0, also without sections; -ENOEXEC; -ENOMEM; -errno. */
int elf_symbols_init(struct elf_symbols *symbols, const struct elf *elf);
void elf_symbols_deinit(struct elf_symbols *symbols);

/** Does it export or import symbols? Static executables do not. */
bool elf_symbols_has_exported(const struct elf_symbols *symbols);

/** The exported, defined symbol @name. Returns 0; -ENOENT; -ENOEXEC if the file is inconsistent; -errno. */
int elf_symbols_find_exported(const struct elf_symbols *symbols, const char *name,
			      Elf64_Sym *ret_symbol);

/** The section @name, or NULL. */
const Elf64_Shdr *elf_symbols_find_section(const struct elf_symbols *symbols, const char *name);

/** Called with each defined symbol; @name is valid in the call. Returns false to stop. */
typedef bool elf_symbol_visit(void *context, const char *name, const Elf64_Sym *symbol);

/**
 * All of .symtab, or of .dynsym if there is none. Returns 0; -ENOENT if there is neither; -ENOEXEC; -E2BIG past a limit;
 * -ENOMEM; -errno.
 */
int elf_symbols_each(const struct elf_symbols *symbols, elf_symbol_visit *visit, void *context);

/** The same with @name NULL: the string table, most of what there is to read, is not read (libtorch's is 78 MB). */
int elf_symbols_each_unnamed(const struct elf_symbols *symbols, elf_symbol_visit *visit,
			     void *context);

/** Does a symbol of those visited have one of the names? False if unreadable. */
bool elf_symbols_is_named(const struct elf_symbols *symbols, const Elf64_Sym *symbol,
			  const char *const *names, size_t name_count);
